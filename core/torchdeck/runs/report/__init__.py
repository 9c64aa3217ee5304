"""Reports of runs as one HTML page with plots, configuration, result and notes."""
