"""Tables of run.toml for other commands: a launch does not read them."""
