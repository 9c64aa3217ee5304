"""What a plan needs to know: the model, the data, the code, the nodes."""
