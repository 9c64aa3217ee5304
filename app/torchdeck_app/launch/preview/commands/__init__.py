"""Commands of every node."""
