"""What a user asks of runs."""
