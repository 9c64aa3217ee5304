"""Preview of a run, next to its configuration."""
