"""Form of a run, built from the schema."""
