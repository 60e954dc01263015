"""The schemes that a test is for, by what they declare (carom/schemes/scheme.py)."""

from carom.contracts import Equations
from carom.schemes.named import SCHEMES

OF_ANY_WORLD = [kind() for kind in SCHEMES.values() if kind.needs is not Equations]
WITH_FRICTION = [scheme for scheme in OF_ANY_WORLD if scheme.frictional]
STEPPING_WITH_FRICTION = [kind() for kind in SCHEMES.values() if kind.frictional and not kind.dense]
