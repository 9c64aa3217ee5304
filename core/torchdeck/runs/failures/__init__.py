"""Causes of a run's failure, and remedies."""
