"""Runs' folders: creating, opening and deleting them, and the files stored next to them."""
