"""Have all nodes the same Python, torch, CUDA and NCCL; what differs makes ranks hang or differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchdeck.contract.inventory import InterpreterFacts, major_minor
from torchdeck.nodes.probe.facts import NodeFacts, Python
from torchdeck.plan.check import Check, failed, ok, warning


def check_versions(nodes: Mapping[str, NodeFacts], backend: str) -> Iterator[Check]:
    """A check of every node for each thing that must be the same on all; the first of them is the measure.

    Nodes without torch are passed over where it is compared: that they have none is said already.

    Args:
        nodes: what each said, by name, in the order of node ranks.
        backend: `nccl` or `gloo`; the libraries of GPUs matter under the first alone.
    """
    if len(nodes) < 2:
        return
    pythons = {name: facts.python for name, facts in nodes.items()}
    yield from _same("torch", {name: python.torch for name, python in pythons.items()}, strict=True)
    # pickles and byte code do not cross minor versions; patch levels do no harm
    yield from _same("python", {name: _minor(python) for name, python in pythons.items()}, strict=True)
    if backend == "nccl":
        yield from _same(
            "cuda", {name: python.cuda or "none" for name, python in pythons.items()}, strict=True
        )
        yield from _same(
            "nccl", {name: python.nccl or "own" for name, python in pythons.items()}, strict=True
        )
        yield from _same("driver", {name: facts.gpu.driver for name, facts in nodes.items()}, strict=False)


def check_interpreters(nodes: Mapping[str, InterpreterFacts]) -> Iterator[Check]:
    """The same of torch and Python alone, for this machine among `nodes`, of which no more is known."""
    if len(nodes) < 2:
        return
    yield from _same("torch", {name: python.torch for name, python in nodes.items()}, strict=True)
    pythons = {name: ".".join(map(str, major_minor(python.python))) for name, python in nodes.items()}
    yield from _same("python", pythons, strict=True)


def _same(what: str, said: Mapping[str, str | None], *, strict: bool) -> Iterator[Check]:
    found = {name: version for name, version in said.items() if version is not None}
    if len(found) < 2:
        return
    first, measure = next(iter(found.items()))
    fix = f"install {what} {measure} there, or `torchdeck nodes edit` names another Python of the node"
    tell = failed if strict else warning
    for name, version in found.items():
        if version == measure:
            yield ok(f"same {what}", name, f"{what} {version}")
        else:
            yield tell(f"same {what}", name, f"{what} is {version}, and {measure} on {first}", fix)


def _minor(python: Python) -> str:
    return ".".join(map(str, major_minor(python.version)))
