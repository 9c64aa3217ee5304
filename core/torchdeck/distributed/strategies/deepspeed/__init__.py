"""Strategy `deepspeed`: ZeRO through DeepSpeed's engine."""
