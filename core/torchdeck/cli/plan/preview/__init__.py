"""A preview on a terminal."""
