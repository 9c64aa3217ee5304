"""Memory under DeepSpeed ZeRO."""
