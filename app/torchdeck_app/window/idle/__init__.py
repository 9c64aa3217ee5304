"""What the window leaves undone while no one uses it."""
