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


def machine_with_gpus(processes: str = "", count: int = 2) -> str:
    """The body of one that answers every question: a listing, values, and `processes` as rows."""
    listed = "\n".join(
        f"{index}, GPU-{index}, 81559, 20000, 550.54.15, NVIDIA H100 80GB HBM3" for index in range(count)
    )
    # as DETAILED_FIELDS has them; the last of them has no process and is idle
    values = "\n".join(
        f"{index}, 93, 61559, 81559, 66, 640.10, 1755, 700.00, 16, 2619, 0x0000000000000004"
        if index < count - 1
        else f"{index}, 0, 10, 81559, 31, 71.20, 345, 700.00, 16, 2619, 0x0000000000000001"
        for index in range(count)
    )
    return f"""case "$*" in
*query-compute-apps*) cat <<'E'
{processes}
E
;;
*driver_version*) cat <<'E'
{listed}
E
;;
*query-gpu*) cat <<'E'
{values}
E
;;
*) echo '| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |';;
esac"""
