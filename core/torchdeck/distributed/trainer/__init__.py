"""The training loop over any strategy, and the work around its steps."""
