"""What a run will do, beside its configuration."""
