"""State of ranks, read from the files they write: progress, hangs, failures, printed numbers."""
