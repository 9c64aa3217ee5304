"""The environment that a node's ranks are started with."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.config.problems import Problem
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.slots import escape, slot

UNSET: tuple[str, ...] = ("PET_*", "TORCH_ELASTIC_WORKER_IDENTICAL")
"""Removed from what a rank inherits: defaults of torchrun's flags, and what gives duplicate ranks on uneven nodes."""

_SET_BY_TORCHRUN = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    }
)


def rank_environment(
    share: NodeShare, own: Mapping[str, str], environ: Mapping[str, str], recipe: str | None
) -> dict[str, str]:
    """Variables of one node's ranks; values may hold slots.

    Args:
        share: the node's part.
        own: the config's [run.env].
        environ: the launching shell's; its PYTHONPATH stays behind ours, its OMP_NUM_THREADS stays.
        recipe: settings of a recipe run as JSON, slots in it, the user's texts escaped.
    """
    users_path = own.get("PYTHONPATH", environ.get("PYTHONPATH", ""))
    env = {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(max(1, share.node.cpu_count // share.nproc)),
        "PYTHONUNBUFFERED": "1",
        **{name: escape(value) for name, value in own.items()},
        "CUDA_VISIBLE_DEVICES": escape(",".join(device.key for device in share.devices)),
        "PYTHONPATH": slot("shipped") + (f":{escape(users_path)}" if users_path else ""),
        "TORCHDECK_RUN_ID": slot("run_id"),
        "TORCHDECK_RUN_DIR": slot("run_dir"),
        "TORCHDECK_ATTEMPT": slot("attempt"),
        "TORCHDECK_RESUME": slot("resume"),
    }
    if any(not device.uuid for device in share.devices):
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # indices are nvidia-smi's; CUDA counts the fastest first
    if recipe is not None:
        env["TORCHDECK_RECIPE"] = recipe
    return env


def environment_problems(own: Mapping[str, str]) -> list[Problem]:
    """What is wrong with the config's [run.env]: names that cannot be, or that are the launcher's to set."""
    problems = []
    for name, value in own.items():
        path = f"run.env.{name}"
        if not name or "=" in name or "\0" in name + value:
            problems.append(
                Problem(path=path, wrong=f"{name!r} cannot be set", right="a name without =, no NUL characters")
            )
        elif name == "CUDA_VISIBLE_DEVICES":
            problems.append(
                Problem(path=path, wrong="which GPUs a run uses is part of its plan", right="distributed.devices")
            )
        elif name.startswith(("TORCHDECK_", "PET_")) or name in _SET_BY_TORCHRUN:
            problems.append(
                Problem(path=path, wrong=f"{name} is set by the launcher for each rank", right="another name")
            )
    return problems
