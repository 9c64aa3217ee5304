"""Environment variables with which a node's ranks are started."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.contract.plan.slots import escape, slot
from torchdeck.contract.plan.smaller_plan import WITHIN_ONE_MACHINE
from torchdeck.plan.placement import NodeShare

UNSET: tuple[str, ...] = ("PET_*", "TORCH_ELASTIC_WORKER_IDENTICAL")
"""Variables removed from the inherited ones: defaults of torchrun's flags, and one that duplicates ranks on
uneven nodes.
"""


INTERFACE_VARIABLES = tuple(WITHIN_ONE_MACHINE)


def rank_environment(
    share: NodeShare,
    own: Mapping[str, str],
    environ: Mapping[str, str],
    recipe: str | None,
    *,
    alone: bool = True,
) -> dict[str, str]:
    """Return the variables of one node's ranks; values may contain slots.

    Args:
        share: share of the node.
        own: the config's [run.env].
        environ: environment of the launching shell; its PYTHONPATH is appended to ours, its OMP_NUM_THREADS
            is kept.
        recipe: settings of a recipe run as JSON, with slots in it and the user's texts escaped.
        alone: there is no other node.
    """
    if share.node.described or share.node.remote:
        environ = {}  # this shell's paths and threads do not apply there
    users_path = own.get("PYTHONPATH", environ.get("PYTHONPATH", ""))
    # torch may only be importable through what an activation script or a module system sets there
    nodes_path = slot("node_path") if share.node.remote else ""
    env = {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(max(1, share.node.cpu_count // share.nproc)),
        "PYTHONUNBUFFERED": "1",
        **(WITHIN_ONE_MACHINE if alone else _among_nodes(share)),
        **{name: escape(value) for name, value in own.items()},
        "CUDA_VISIBLE_DEVICES": escape(",".join(device.key for device in share.devices)),
        "PYTHONPATH": slot("shipped") + (f":{escape(users_path)}" if users_path else "") + nodes_path,
        "TORCHDECK_RUN_ID": slot("run_id"),
        "TORCHDECK_RUN_DIR": slot("run_dir"),
        "TORCHDECK_ATTEMPT": slot("attempt"),
        "TORCHDECK_RESUME": slot("resume"),
    }
    if not alone:
        env["TORCHDECK_NODE"] = escape(share.node.name)
    if any(not device.uuid for device in share.devices):
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # indices are nvidia-smi's; CUDA puts the fastest first
    if recipe is not None:
        env["TORCHDECK_RECIPE"] = recipe
    return env


def _among_nodes(share: NodeShare) -> dict[str, str]:
    """Return the variables by which a node's ranks find the others; one value for all nodes would break mixed
    clusters.
    """
    interface = share.node.interface
    return {name: escape(interface) for name in INTERFACE_VARIABLES} if interface else {}
