"""`torchdeck ckpt`."""
