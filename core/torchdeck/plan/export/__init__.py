"""Plans as scripts that run without Torchdeck."""
