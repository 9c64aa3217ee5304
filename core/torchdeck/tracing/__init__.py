"""Model tracing without memory: the model is built on the meta device and run once, in a separate process."""
