"""Command palette: all actions and runs, found by typing a few letters."""
