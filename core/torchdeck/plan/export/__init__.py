"""Export of plans as scripts that run without Torchdeck."""
