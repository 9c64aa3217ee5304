"""Replay of a run's journals, event by event, into its state."""
