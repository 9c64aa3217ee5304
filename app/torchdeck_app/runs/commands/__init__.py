"""Commands of the user to runs."""
