"""Facts that a plan needs: the model, the data, the code, the nodes."""
