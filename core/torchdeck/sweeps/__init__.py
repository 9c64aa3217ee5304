"""Sweeps: search space, strategies, pruning, and the state of a sweep, as values. Nothing is started here."""
