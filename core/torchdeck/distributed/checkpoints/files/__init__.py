"""The files of a checkpoint, written and read as untrusted data."""
