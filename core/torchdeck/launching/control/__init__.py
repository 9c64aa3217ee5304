"""The controller of a run, its requests and secrets, and taking over a run."""
