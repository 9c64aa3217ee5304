"""Name of a weight's moving average in a checkpoint: this prefix, and the weight's own name."""

AVERAGE_PREFIX = "ema."
