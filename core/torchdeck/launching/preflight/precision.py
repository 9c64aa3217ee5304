"""Checks that the CPUs of ranks have instructions for their compute precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.plan.check import Check, warning


def check_precision(
    config: RunConfig, node: NodePlan | None, name: str, bf16: Sequence[str] | None
) -> Iterator[Check]:
    """Warn if a recipe's bf16 is to run on CPUs without instructions for it.

    Args:
        config: the requested configuration.
        node: the node's part of the plan; None if no plan could be made, and there is then no warning.
        name: name of the node.
        bf16: which of `BF16_FLAGS` its CPUs have; None if not reported, or not x86.
    """
    if config.run.recipe is None or config.training.precision != "bf16" or node is None:
        return
    if node.devices or bf16 is None or bf16:
        return
    what = "its CPUs have no instructions for bf16 (no AVX-512, no AMX): steps may take many times as long"
    yield warning("precision", name, what, 'training.precision = "fp32" is faster there')
