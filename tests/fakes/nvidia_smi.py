"""A stand-in for nvidia-smi: a script that prints what a machine with GPUs would."""

from pathlib import Path

H100 = (
    "0, GPU-aaaa, 81559, 81000, 535.1.2, NVIDIA H100 80GB HBM3\n"
    "1, GPU-bbbb, 81559, 559, 535.1.2, NVIDIA H100 80GB HBM3\n"
)
"""The rows of two GPUs as a listing has them."""


def fake_nvidia_smi(folder: Path, body: str) -> str:
    """An executable that runs the lines of shell in `body`; its path."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)
