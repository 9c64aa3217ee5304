"""What the nodes of the book are doing now, watched while it is looked at."""
