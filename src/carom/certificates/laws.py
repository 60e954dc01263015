"""The clauses of friction, joints and glue: each takes a ``Measured`` to (violation, allowed, t).

With r_n and r_t the impulses of a gap since the record before, u its sliding velocity at a record,
j a joint and gamma what a glued gap remembers,

    |r_t| <= mu r_n,      r_t = -mu r_n u / |u|  or  u = 0,      r_t . u <= 0                 (1)
    j(t, q) = 0,          d/dt j = 0                                                          (2)
    gamma = min(0, gamma_before - r_n),      -r_n <= |gamma_before|,      g = w = 0 if gamma < 0 (3)

(docs/certificate.md).  ``du`` is the change of u in a step of free motion, ``dj`` that of d/dt j.
"""

import numpy as np

from carom.certificates.spans import MARGIN, ends, widest

_SOLVED = 1e-8  # relative: to what the laws of a step are solved


class Sliding:
    """Impulses and velocities of friction, at each record after the first."""

    def __init__(self, m):
        n, p = m.lam.shape
        r = m.beside.shape[1] - m.at.joint.shape[1]

        def shaped(x):
            return x[:, :r].reshape(n, p, -1)

        self.impulse, self.u = shaped(m.beside)[1:], shaped(m.at.beside)
        self.mu = np.broadcast_to(np.asarray(m.system.friction), (p,))
        self.most = self.mu * np.maximum(m.lam[1:], 0.0)  # (m, p) mu r_n
        bend = np.linalg.norm(shaped(m.at.beside_bend), axis=2)
        self.du = m.H[:, None] * widest(np.maximum(*ends(bend)))  # (m, p)
        if m.options.inside:  # what slides may have turned on the way
            self.du = self.du + np.linalg.norm(shaped(m.at.beside_coupled)[1:], axis=2)
        self.size = np.linalg.norm(self.impulse, axis=2)
        self.rounding = _SOLVED * np.max(self.most, initial=0.0)
        fastest = np.max(np.linalg.norm(self.u, axis=2), initial=0.0)
        inverse = np.max(shaped(m.at.beside_inverse), axis=2, initial=0.0)
        small = m.small_v[:, None] * np.sqrt(np.maximum(*ends(inverse))) + _SOLVED * fastest
        self.least = MARGIN * self.du + small  # (m, p) a velocity below it is no slip

    def work(self):
        """(m,) of friction, at the mean of the sliding velocities of a step."""
        return np.sum(self.impulse * (self.u[1:] + self.u[:-1]) / 2, axis=(1, 2))


def cone(m):
    s = Sliding(m)
    return s.size - s.most, np.full_like(s.size, s.rounding), m.t[1:]


def slip(m):
    """Against the slip, where that is more than what a step of free motion makes of it."""
    s = Sliding(m)
    speed = np.linalg.norm(s.u[1:], axis=2)
    slides = speed > s.least
    against = s.impulse + s.most[:, :, None] * s.u[1:] / np.maximum(speed, 1e-300)[:, :, None]
    turned = MARGIN * s.most * s.du / np.maximum(speed, 1e-300)
    found = np.where(slides, np.linalg.norm(against, axis=2), 0.0)
    return found, turned + s.rounding, m.t[1:]


def friction_work(m):
    s = Sliding(m)
    given = np.sum(s.impulse * s.u[1:], axis=2)
    return given, s.size * s.least + 1e-300, m.t[1:]


def _of_joints(m, x):
    return x[:, x.shape[1] - m.at.joint.shape[1] :]


def _dj(m):
    """(n, k)"""
    bend = _of_joints(m, m.at.beside_bend)
    found = m.H[:, None] * widest(np.maximum(*ends(bend)))
    return np.concatenate([found[:1], found])


def joint(m):
    """A step leaves what force and curvature do in it."""
    H = np.concatenate([m.H[:1], m.H])[:, None]
    far = np.max(m.norm.velocity(m.q)) * np.sqrt(_of_joints(m, m.at.beside_inverse))
    return np.abs(m.at.joint), MARGIN * H * _dj(m) + _SOLVED * far, m.t


def joint_velocity(m):
    small = np.concatenate([m.small_v[:1], m.small_v])[:, None] + _SOLVED * m.size_v
    small = small * np.sqrt(_of_joints(m, m.at.beside_inverse))
    return np.abs(_of_joints(m, m.at.beside)), MARGIN * _dj(m) + small, m.t


def remembered(m):
    """(n, p) gamma, from the impulses, and from what a run that goes on began with."""
    gamma = np.minimum(0.0, -m.lam)
    if m.options.glued is not None:
        gamma[0] = m.options.glued
    for k, r in enumerate(m.lam[1:], start=1):
        gamma[k] = np.minimum(0.0, gamma[k - 1] - r)
    return gamma


def pull(m):
    """No more than what is remembered."""
    gamma = remembered(m)[:-1]
    small = m.tolerance * np.max(np.maximum(np.abs(m.lam[1:]), -gamma), initial=0.0)
    return -m.lam[1:], small - gamma, m.t[1:]


def _glued(m):
    gamma = remembered(m)
    least = _SOLVED * np.max(np.abs(m.lam), initial=0.0)
    return (gamma[1:] < -least) & (gamma[:-1] < -least)


def glued_speed(m):
    found = np.where(_glued(m), np.abs(m.at.w[1:]), 0.0)
    return found, MARGIN * (m.dw + m.small_w), m.t[1:]


def glued_gap(m):
    found = np.where(_glued(m), np.maximum(m.at.gap[1:], 0.0), 0.0)
    return found, MARGIN * m.H[:, None] * (m.dw + m.small_w) + m.small_gap[1:], m.t[1:]
