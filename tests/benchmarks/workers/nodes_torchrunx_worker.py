"""Runs the step of bench_nodes.py by torchrunx, in an environment that has it."""

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

import torchrunx  # type: ignore[import-not-found]


def step(moment: str) -> None:
    """One all-reduce; rank 0 notes when it was done."""
    import torch
    import torch.distributed as dist

    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == dist.get_world_size()
    if dist.get_rank() == 0:
        Path(moment).write_text(repr(time.time()))


def main(told: dict[str, Any]) -> None:
    # the hosts do not know this machine by its name, which is what torchrunx would tell them
    socket.getfqdn = lambda name="": name or str(told["here"])
    launcher = torchrunx.Launcher(
        hostnames=told["hosts"],
        workers_per_host=1,
        ssh_config_file=told["ssh_config"],
        backend="gloo",
        extra_env_vars={"GLOO_SOCKET_IFNAME": told["interface"], "OMP_NUM_THREADS": "1"},
    )
    launcher.run(step, told["moment"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
