"""The training loop over any strategy, and what happens around its steps."""
