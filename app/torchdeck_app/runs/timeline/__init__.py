"""Journals of a run as a list."""
