"""Launch page: a run file next to its preview."""
