"""Frictional contact problems as such, and the FCLIB files in which the field exchanges them.

With one block of ``dim`` components for each contact, normal first, find r with

    u = W r + q,     K*_mu ∋ u + mu |u_t| n   perp   r ∈ K_mu                                 (1)

and, where the problem is global, M v = H r + f, u = H^T v + w, so that

    W = H^T M^-1 H,     q = w + H^T M^-1 f.                                                   (2)

An answer is measured by the natural map as a velocity, relative to q,

    | rho^-1 (r - P_K(r - rho (u + mu |u_t| n))) | / |q|,     rho_k = 1 / |W_kk|_2.           (3)

Most problems of piles have more unknowns than motions: u is determined, r often is not.
"""

from carom.fclib.problem import Problem, Result, load
from carom.fclib.step import of_step

__all__ = ["Problem", "Result", "load", "of_step"]
