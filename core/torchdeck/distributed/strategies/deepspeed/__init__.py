"""The strategy deepspeed: ZeRO through DeepSpeed's engine."""
