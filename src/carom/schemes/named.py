"""A scheme from its text, as one would write it: ``Moreau``, ``Moreau(implicit=True)``."""

import ast
from typing import Any

from carom.arguments import nearest_name
from carom.contracts import offers
from carom.errors import CaromError, KindError
from carom.schemes.event_driven import EventDriven
from carom.schemes.maury import Maury
from carom.schemes.moreau import Moreau
from carom.schemes.moreau_jean import MoreauJean
from carom.schemes.paoli_schatzman import PaoliSchatzman
from carom.schemes.penalty import Penalty

SCHEMES = {
    kind.__name__: kind
    for kind in (Moreau, MoreauJean, Maury, PaoliSchatzman, Penalty, EventDriven)
}


def scheme_of_text(text: str):
    """The scheme that ``text`` names, with options in brackets."""
    name, options = _parsed(text)
    if name not in SCHEMES:
        hint = nearest_name(name, SCHEMES)
        raise KindError(f"there is no scheme {name!r}{hint} There are {', '.join(SCHEMES)}")
    return SCHEMES[name](**options)


def moved_by(world) -> list[str]:
    """The schemes that can move a world: those that ask no more of it than it has."""
    return [name for name, kind in SCHEMES.items() if offers(world, kind.needs)]


def _parsed(text):
    """The name, and the options as a dictionary."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            options = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg}
            if len(options) == len(tree.keywords):
                return tree.func.id, options
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    raise KindError(f"scheme is {text!r}; write a name, or one with options: Moreau(implicit=True)")


def scheme_or_text(text: str) -> Any:
    """The scheme that a text names; the text where it is of another kind."""
    try:
        return scheme_of_text(text)
    except CaromError:
        return text
