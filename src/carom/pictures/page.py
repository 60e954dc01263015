"""A page of HTML that needs nothing else: in a notebook, or as a file."""

import html
import os
from dataclasses import dataclass

from carom.errors import RecordError


@dataclass(frozen=True, repr=False)
class Page:
    """What ``sol.view()`` returns: shown in a notebook as it is; ``save`` writes it to a file."""

    html: str
    height: int = 640  # pixels in a notebook

    def save(self, path: str | os.PathLike) -> None:
        """Write it; any browser opens it, without a network."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.html)
        except OSError as problem:
            raise RecordError(f"cannot write {os.fspath(path)!r}: {problem.strerror}") from None

    def __repr__(self) -> str:
        return f"<page of {len(self.html) / 1e6:.2g} MB: it shows in a notebook; .save(path)>"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0"
        # a frame of its own, without rights: no script reaches the notebook, or the other way round
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" style="{style}" '
            'sandbox="allow-scripts allow-downloads"></iframe>'
        )
