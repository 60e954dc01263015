"""Studies of a system with impacts: orbits, their stability and bifurcations, chaos, sweeps."""

from carom.study.follow import Bifurcation, Branch, follow
from carom.study.lyapunov import Exponents, lyapunov
from carom.study.orbit import Orbit, orbit

__all__ = ["Bifurcation", "Branch", "Exponents", "Orbit", "follow", "lyapunov", "orbit"]
