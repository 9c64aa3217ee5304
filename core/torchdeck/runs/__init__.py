"""Runs on disk: where they lie, how one is made, what state it is in, and all of them together."""
