"""The controller of a run, its requests and secrets, and taking a run over."""
