"""Preview on a terminal."""
