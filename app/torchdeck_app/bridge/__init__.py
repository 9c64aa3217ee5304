"""Bridge between the engine's blocking calls and the GUI thread."""
