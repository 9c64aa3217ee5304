"""Templates of run files: presets, examples, and a file for a script."""
