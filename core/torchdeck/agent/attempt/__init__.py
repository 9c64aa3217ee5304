"""One attempt on one node: its plan, devices, secrets and checkpoint to resume from."""
