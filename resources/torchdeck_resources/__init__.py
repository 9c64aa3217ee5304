"""Torchdeck's resources besides code: example run files, read through importlib.resources."""
