"""Use cases of the queue: add, edit, list, and serve it."""
