"""What a training reports of itself, and what it watches for."""
