"""Moving pictures of the gallery: every .gif that a script writes goes onto its page."""

import shutil
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst


def scraper(block, block_vars, gallery_conf):
    """Called after each block of a script, in the folder of the script."""
    found = []
    for picture in sorted(Path(block_vars["src_file"]).parent.glob("*.gif")):
        target = Path(next(block_vars["image_path_iterator"])).with_suffix(".gif")
        shutil.move(picture, target)
        found.append(str(target))
    return figure_rst(found, gallery_conf["src_dir"], "the motion")
