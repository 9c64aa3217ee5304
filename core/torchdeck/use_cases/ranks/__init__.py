"""Use cases about the ranks of a running run: their stacks and profiles."""
