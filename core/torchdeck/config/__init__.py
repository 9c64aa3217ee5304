"""What a person asks for: the one schema of run.toml, and reading, checking and editing such files."""
