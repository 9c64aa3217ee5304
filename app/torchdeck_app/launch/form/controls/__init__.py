"""What values of the form are shown and changed with."""
