"""Training without a recipe file: a model, a loss and data, in a script of one's own."""
