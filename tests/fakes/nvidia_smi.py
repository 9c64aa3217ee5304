"""A stand-in for nvidia-smi: a script that prints what a machine with GPUs would."""

from pathlib import Path

H100 = "0, GPU-aaaa, 81559, 81000, NVIDIA H100 80GB HBM3\n1, GPU-bbbb, 81559, 559, NVIDIA H100 80GB HBM3\n"


def fake_nvidia_smi(folder: Path, body: str) -> str:
    """An executable that runs the lines of shell in `body`; its path."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)
