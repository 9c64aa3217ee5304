"""Configuration of a run, and its differences from another."""
