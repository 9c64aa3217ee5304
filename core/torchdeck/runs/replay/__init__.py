"""A run's journals replayed, event by event, into its state."""
