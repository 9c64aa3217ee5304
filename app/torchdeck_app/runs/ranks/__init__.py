"""Ranks beside each other over time."""
