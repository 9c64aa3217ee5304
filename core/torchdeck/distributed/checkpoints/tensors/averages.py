"""The name in a checkpoint of a weight's moving average: this, and the weight's own."""

AVERAGE_PREFIX = "ema."
