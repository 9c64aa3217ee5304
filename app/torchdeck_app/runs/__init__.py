"""Runs page: the list of all runs and the view of one run."""
