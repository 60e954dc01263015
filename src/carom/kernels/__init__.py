"""Compiled functions of flat arrays: the only folder with Numba decorators.

Bodies are rows of (B, 3) arrays; a world of two dimensions has a third coordinate of zero.  Every
result is the same to the last bit whatever the number of threads: what runs in parallel writes
only its own entries, and sums are taken over pieces of a fixed size, in a fixed order.
"""
