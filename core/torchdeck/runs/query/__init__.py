"""Questions to the list of runs: `training.lr > 1e-3 and state = failed`."""
