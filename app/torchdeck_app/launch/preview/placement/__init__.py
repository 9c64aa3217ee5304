"""Which rank sits where, as a board."""
