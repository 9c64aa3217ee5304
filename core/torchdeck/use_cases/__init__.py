"""Use cases: what a user can do with runs. Terminal, `torchdeck.launch` and window call these."""
