"""Evidence on a node as a whole: GPUs, NCCL, network interfaces."""
