"""Options of the built-in recipes: their [model] and [data] tables."""
