"""State restored at the next start."""
