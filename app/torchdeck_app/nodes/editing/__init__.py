"""Adding nodes, changing them, importing them and taking them out."""
