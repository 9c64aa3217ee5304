"""Goodput: how much of a run's wall time trained, and what the rest was spent on."""
