"""What a node might say of itself, for tests by values."""

from __future__ import annotations

from typing import Any

from torchdeck.nodes.probe.facts import NodeFacts

GIB = 2**30


def node_facts(host: str = "a", **changes: Any) -> NodeFacts:
    """A node in good order with torch on the CPU; `changes` replaces what it says at the top."""
    said: dict[str, Any] = {
        "time": 0.0,
        "home": "/home/ann/.local/share/torchdeck",
        "system": {
            "host": host,
            "os": "Debian",
            "kernel": "6.1",
            "machine": "x86_64",
            "boot": "b",
            "user": "me",
        },
        "cpu": {"cores": 8, "usable": 8, "model": "", "load": 0.0},
        "memory": {"total": 16 * GIB, "free": 8 * GIB, "shm_total": 8 * GIB, "shm_free": 8 * GIB},
        "disks": [{"path": "/root", "there": True, "writable": True, "total": 100 * GIB, "free": 50 * GIB}],
        "gpu": {"devices": [], "driver": "", "cuda": "", "error": ""},
        "pythons": [python()],
        "interfaces": [{"name": "eth0", "addresses": ["10.0.0.5"], "up": True, "speed": 1000}],
        "routes": [],
        "own_name": {"name": host, "resolves": True, "slow": False, "seconds": 0.0, "error": ""},
        "runs": [],
        "kills_after_logout": False,
    }
    return NodeFacts.model_validate({**said, **changes})


def python(**changes: Any) -> dict[str, Any]:
    """The Python that runs would use."""
    said = {
        "executable": "/usr/bin/python3",
        "version": "3.11.7",
        "torch": "2.13.0",
        "numpy": "2.4.6",
        "deepspeed": None,
        "nccl": "2.27.3",
        "cuda": "12.8",
        "error": "",
        "chosen": True,
    }
    return {**said, **changes}


def gpu(index: int, *users: int) -> dict[str, Any]:
    """A GPU that processes `users` use."""
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100",
        "memory": 80 * GIB,
        "free": 79 * GIB,
        "users": [{"pid": pid, "memory": GIB} for pid in users],
    }
