"""Run file as TOML text: editor, highlighting and completion."""
