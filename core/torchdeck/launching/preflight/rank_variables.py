"""Checks the variables of NCCL, gloo and torch that ranks of a node get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchdeck.config.values.gpu_models import gpu_model
from torchdeck.contract.node_requests import COMMUNICATION_PREFIXES
from torchdeck.contract.plan.elastic import WITHIN_ONE_MACHINE
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import UnknownSlotError, fill
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.plan.communication_variables import NodeSetting, contradictions

NAME = "variables"
_TIMING = ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING", "TORCH_NCCL_DESYNC_DEBUG", "NCCL_DESYNC_DEBUG")
"""With any of them torch records when a collective begins and ends on the GPU."""


def check_variables(
    plan: LaunchPlan,
    node: NodePlan,
    environ: Mapping[str, str],
    *,
    interfaces: Sequence[str] | None = None,
    infiniband: Sequence[str] | None = None,
    gpu_names: Sequence[str] = (),
) -> Iterator[Check]:
    """Check the variables of one node; yield nothing of them if there is only the interface, and it fits.

    Args:
        plan: plan of the run.
        node: its part of the plan.
        environ: variables of a session there.
        interfaces: network interfaces there; None: unknown.
        infiniband: InfiniBand and RoCE devices there; None: unknown.
        gpu_names: models of its GPUs.
    """
    variables = variables_of(node, environ)
    models = [gpu_model(name) for name in gpu_names]
    setting = NodeSetting(
        variables,
        plan.backend,
        nodes=len(plan.all_nodes),
        gpus=len(node.devices),
        interfaces=None if interfaces is None else frozenset(interfaces),
        infiniband=None if infiniband is None else tuple(infiniband),
        nvlink=all(model is not None and model.link_bytes is not None for model in models)
        if models
        else None,
    )
    found = contradictions(setting)
    for each in found:
        yield (failed if each.fatal else warning)(NAME, node.name, each.what, each.fix)
    if not found and not variables.keys() <= WITHIN_ONE_MACHINE.keys():
        names = ", ".join(sorted(variables))
        yield ok(NAME, node.name, f"these fit each other and the plan: {names}")
    yield from _untimed(plan, node, setting)


def _untimed(plan: LaunchPlan, node: NodePlan, setting: NodeSetting) -> Iterator[Check]:
    """Yield a note, once per run, if NCCL does not measure how long GPUs are in collectives."""
    is_timed = any(setting.on(name) for name in _TIMING)
    if plan.backend == "nccl" and plan.world_size > 1 and node == plan.all_nodes[0] and not is_timed:
        what = (
            "a slow GPU is not named as the one that delays the others, only a rank whose program is slow: "
            'NCCL measures times with [run.env] TORCH_NCCL_ENABLE_TIMING = "1"'
        )
        yield ok("stragglers", node.name, what)


def variables_of(node: NodePlan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that configure communication, as the node's ranks get them."""
    planned = {name: _value(value) for name, value in node.env.items()}
    left = {name: value for name, value in environ.items() if name not in node.unset}
    together = {**left, **planned}
    return {
        name: value
        for name, value in together.items()
        if name.startswith(COMMUNICATION_PREFIXES) and value is not None
    }


def uses_rdma(plan: LaunchPlan, variables: Mapping[str, str], infiniband: Sequence[str] | None) -> bool:
    """Return whether NCCL uses InfiniBand or RoCE between nodes."""
    off = variables.get("NCCL_IB_DISABLE", "0") == "1" or variables.get("NCCL_NET", "").lower() == "socket"
    return plan.backend == "nccl" and len(plan.all_nodes) > 1 and bool(infiniband) and not off


def _value(planned: str) -> str | None:
    """Return a value of the plan without its escapes; None: it is known only at the start."""
    try:
        return fill(planned, {})
    except UnknownSlotError:
        return None
