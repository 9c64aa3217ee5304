"""Runs on disk: their location, creation, state, and list."""
