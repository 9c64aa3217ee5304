"""Node inventory: the user's own list of nodes and groups, `nodes.toml` in Torchdeck's home."""
