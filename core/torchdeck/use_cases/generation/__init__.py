"""Text from a trained model: which model a checkpoint is of, and its answer to a prompt."""
