"""Training without a recipe file: a model, a loss and data, in the user's own script."""
