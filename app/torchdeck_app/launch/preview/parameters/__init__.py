"""What the model is made of, and which rows of it each rank holds."""
