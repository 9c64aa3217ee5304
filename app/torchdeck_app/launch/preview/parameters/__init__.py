"""Parameters of the model, and the rows of them that each rank holds."""
