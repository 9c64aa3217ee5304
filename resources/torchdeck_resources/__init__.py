"""What Torchdeck ships besides code: example run files, read through importlib.resources."""
