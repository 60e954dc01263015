"""Compiled arithmetic of many bodies, one folder for each backend."""
