"""What of a training goes into a checkpoint, collected and filled in."""
