"""Check that all nodes have the same Python, torch, CUDA and NCCL; differences make ranks hang or diverge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchdeck.contract.inventory import InterpreterFacts, major_minor
from torchdeck.nodes.probe.facts import NodeFacts, Python
from torchdeck.plan.check import Check, failed, ok, warning


def check_versions(nodes: Mapping[str, NodeFacts], backend: str) -> Iterator[Check]:
    """Check every node for each component that must be the same on all; the first node is the reference.

    Nodes without torch are skipped where it is compared: that is reported already.

    Args:
        nodes: facts of each, by name, in the order of node ranks.
        backend: `nccl` or `gloo`; the libraries of GPUs matter only under `nccl`.
    """
    if len(nodes) < 2:
        return
    pythons = {name: facts.python for name, facts in nodes.items()}
    yield from _same("torch", {name: python.torch for name, python in pythons.items()}, strict=True)
    # pickles and byte code are not compatible across minor versions; patch levels are harmless
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
    """Check only torch and Python, for this machine among `nodes`, of which no more is known."""
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
