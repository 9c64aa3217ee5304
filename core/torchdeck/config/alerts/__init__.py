"""The [alerts] table of a run file."""
