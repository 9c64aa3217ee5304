"""Who reads what, and how even that is."""
