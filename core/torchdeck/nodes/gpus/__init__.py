"""GPUs of monitored nodes: their values, owners and histories."""
