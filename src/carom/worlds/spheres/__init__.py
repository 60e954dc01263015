"""Spheres and their walls."""
