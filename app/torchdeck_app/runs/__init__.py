"""The Runs place: all runs, and one of them."""
