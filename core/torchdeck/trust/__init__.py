"""What the user has said may run, and who else could change it."""
