"""User settings, and files kept across starts."""
