"""Adding, changing, importing and removing nodes."""
