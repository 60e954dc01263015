"""Projection in the kinetic metric onto a set given by half-spaces: the one idea of the schemes."""

from carom.projection.exact import Projection, project

__all__ = ["Projection", "project"]
