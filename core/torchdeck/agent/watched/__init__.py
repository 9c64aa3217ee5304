"""The agent of a training that Torchdeck did not start: it observes, and starts and signals nothing."""
