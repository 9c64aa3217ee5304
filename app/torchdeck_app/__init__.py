"""The window: a viewer and an editor over the engine's files. It owns nothing of a run, and no torch."""
