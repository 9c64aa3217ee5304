"""What ranks do, read from the files they write: progress, hangs, failures, printed numbers."""
