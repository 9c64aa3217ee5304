"""The run file as TOML text: the editor, its colours, what it offers while typing."""
