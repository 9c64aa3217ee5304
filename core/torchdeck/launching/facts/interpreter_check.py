"""Checks that the ranks' Python has the required packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts, Version, major_minor
from torchdeck.contract.plan.environment import PlannedEnvironment
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
    if facts.environment is not None:
        yield from _check_environment(facts, facts.environment, node, recipe=recipe)
        return
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


def _check_environment(
    facts: InterpreterFacts, environment: PlannedEnvironment, node: str, *, recipe: bool
) -> Iterator[Check]:
    """Check the environment that uv makes for the ranks."""
    if facts.error:
        what = f'run.environment is "uv", and {facts.error} on this node'
        yield failed("environment", node, what, facts.fix)
        return
    if major_minor(facts.python) < OLDEST_PYTHON:
        what = f"{facts.executable} is Python {facts.python}"
        yield failed("interpreter", node, what, _choose(node, "use Python 3.10 or newer"))
        return
    state = "is there" if environment.is_made else "is made at the start"
    yield ok("environment", node, f"{environment.key} from {environment.source} {state}")
    if not facts.is_locked:
        return  # packages that others need are not listed: the node checks for torch once it is made
    missing = [name for name, version in (("torch", facts.torch), ("numpy", facts.numpy)) if version is None]
    for name in missing if recipe else missing[:1]:
        if name == "torch" or recipe:
            what = f"there is no {name} in {environment.source}, from which uv makes the environment"
            yield failed(name, node, what, f"`uv add {name}`")
    if facts.torch is not None:
        yield _torch(replace(facts, executable=environment.source), node, recipe=recipe)


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
