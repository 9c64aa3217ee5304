"""Checks that the ranks' Python has the required packages."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts, Version, major_minor
from torchdeck.nodes.interpreter import OLDEST_PYTHON
from torchdeck.plan.check import Check, failed, ok, warning

OLDEST_TORCH: Version = (2, 10)


def check_interpreter(facts: InterpreterFacts, node: str, *, recipe: bool) -> Iterator[Check]:
    """Check Python, torch, and numpy, which torch does not install and the trainer needs.

    Args:
        facts: facts about the interpreter.
        node: name of the node.
        recipe: Torchdeck's trainer runs in it, which needs more than a script does.
    """
    path = facts.executable
    if facts.error:
        what = f"Python {path} cannot be used: {facts.error}"
        yield failed(
            "interpreter", node, what, "correct run.interpreter" if node == LOCALHOST else _choose(node)
        )
        return
    if major_minor(facts.python) < OLDEST_PYTHON:
        yield failed(
            "interpreter", node, f"{path} is Python {facts.python}", _choose(node, "use Python 3.10 or newer")
        )
        return
    yield ok("interpreter", node, f"Python {facts.python} at {path}")
    yield _torch(facts, node, recipe=recipe)
    if recipe and facts.numpy is None:
        yield failed(
            "numpy", node, f"there is no numpy in {path}", _choose(node, f"`{path} -m pip install numpy`")
        )


def _choose(node: str, what: str = "") -> str:
    """Return advice to do `what`, or choose another Python; the key to set depends on the node."""
    if node == LOCALHOST:
        return f"{what}, or name another Python in run.interpreter"
    other = f"`torchdeck nodes edit {node}` names another Python"
    return f"{what} there, or {other}" if what else other


def check_deepspeed(facts: InterpreterFacts, node: str) -> Iterator[Check]:
    """Check for DeepSpeed, an extra of Torchdeck that only its strategy needs."""
    path = facts.executable
    if facts.error:
        return  # said already
    if facts.deepspeed is not None:
        yield ok("deepspeed", node, f"DeepSpeed {facts.deepspeed}")
        return
    what = f'distributed.strategy is "deepspeed", and there is no DeepSpeed in {path}'
    yield failed("deepspeed", node, what, _choose(node, f"`{path} -m pip install 'torchdeck[deepspeed]'`"))


def _torch(facts: InterpreterFacts, node: str, *, recipe: bool) -> Check:
    path, version = facts.executable, facts.torch_version
    if version is None:
        return failed(
            "torch", node, f"there is no torch in {path}", _choose(node, f"`{path} -m pip install torch`")
        )
    if version >= OLDEST_TORCH:
        return ok("torch", node, f"torch {facts.torch}")
    what = f"torch {facts.torch} in {path} is older than 2.10"
    fix = _choose(node, f"`{path} -m pip install --upgrade torch`")
    return failed("torch", node, what, fix) if recipe else warning("torch", node, what, fix)
