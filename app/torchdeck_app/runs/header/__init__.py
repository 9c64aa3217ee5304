"""Header of a run: its current activity and its actions."""
