"""The journals of a run as a list."""
