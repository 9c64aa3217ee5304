"""The launch plan as agents execute it, and its components."""
