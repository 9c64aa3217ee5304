"""Run files to start from: presets, examples, and a file for a script."""
