"""Plots, animations, the page in the browser."""
