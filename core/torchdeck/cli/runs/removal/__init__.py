"""Commands that delete runs and checkpoints, or bring runs back."""
