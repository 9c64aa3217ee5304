"""What a run does now, and what can be asked of it."""
