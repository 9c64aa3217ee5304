"""Batch plan that a run needs before it can start: reported if missing, and built from here."""
