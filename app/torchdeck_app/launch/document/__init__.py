"""Document: its text, its undo history, and its checked content."""
