"""Studies of a system with impacts: orbits, their stability and bifurcations, chaos, sweeps."""

from carom.study.batches import open_sweep, sweep
from carom.study.continuation import Bifurcation, Branch, follow
from carom.study.diagrams import basins, bifurcation, poincare, resonance
from carom.study.exponents import Exponents, lyapunov
from carom.study.members import Extremes, Final, Impacts, Keep, Reduce, Strobe
from carom.study.pictures import plot
from carom.study.shooting import Orbit, orbit

__all__ = [
    "Bifurcation",
    "Branch",
    "Exponents",
    "Extremes",
    "Final",
    "Impacts",
    "Keep",
    "Orbit",
    "Reduce",
    "Strobe",
    "basins",
    "bifurcation",
    "follow",
    "lyapunov",
    "open_sweep",
    "orbit",
    "plot",
    "poincare",
    "resonance",
    "sweep",
]
