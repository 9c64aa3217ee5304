"""The run as a form, made from the schema."""
