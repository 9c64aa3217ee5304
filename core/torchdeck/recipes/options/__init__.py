"""Options of each built-in recipe: its keys in [model] and [data]."""
