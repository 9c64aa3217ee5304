"""Transfer of a run's results from its nodes to here: verified checkpoints, and other files in its folder."""
