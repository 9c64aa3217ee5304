"""Everything that can be done and every run, found by typing a few letters."""
