"""Check that code executed before the ranks exist is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.plan.check import Check, failed, ok
from torchdeck.trust.held import Held


def check_trust(config: RunConfig, held: tuple[Held, ...], node: str) -> Iterator[Check]:
    """Yield a check for code that may not run yet; if there is a recipe file, also one that all may.

    Args:
        config: config of the run.
        held: untrusted code found by the gate.
        node: node to check.
    """
    for each in held:
        yield failed("trust" if each.can_be_trusted else "permissions", node, each.what, each.fix)
    recipe = config.run.recipe
    if recipe is not None and recipe not in BUILTIN_RECIPES and Path(recipe).is_file() and not held:
        yield ok("trust", node, f"{Path(recipe).parent} is trusted")
