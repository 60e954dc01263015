"""The site: `make docs` builds it, warnings are errors, nothing is fetched when it is read."""

import os
import sys
from importlib import metadata
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
matplotlib.use("Agg")

project = "carom"
author = "the carom developers"
release = metadata.version("carom")
html_title = f"carom {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "offline_math",
]
exclude_patterns = ["_build", "_ext", "_static", "_templates", "scripts", "**/GALLERY_HEADER*"]
exclude_patterns += ["**/sg_execution_times*", "sg_execution_times*"]  # they fetch
nitpicky = False
templates_path = ["_templates"]

# --- pages ---------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # conf.py holds functions

# --- reference -----------------------------------------------------------------------------------

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # shapes and units are in the text
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_use_param = False  # q0, v0 stay together
napoleon_attr_annotations = False

# --- gallery -------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "scripts",
    "gallery_dirs": "gallery",
    "filename_pattern": r".*\.py",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib", "motion.scraper"),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
    "capture_repr": (),
    "remove_config_comments": True,
    "thumbnail_size": (480, 320),
    "plot_gallery": True,
}

# --- looks ---------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["carom.css"]
html_logo = "_static/carom.svg"
html_favicon = "_static/carom.svg"
html_show_sourcelink = False
html_domain_indices = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "carom"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "gallery/index": []}
copyright = "the carom developers, MIT licence"
html_context = {"default_mode": "auto"}
