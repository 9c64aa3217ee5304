"""Check that the files to run exist: script, recipe, module, working directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, Run, RunConfig
from torchdeck.plan.check import Check, failed, ok
from torchdeck.trust.trust_list import Held


def check_sources(run: Run, node: str, user_path: str = "") -> Iterator[Check]:
    """Check script, recipe or module, and the working directory.

    Args:
        run: the [run] table, its paths absolute.
        node: node to check.
        user_path: PYTHONPATH that ranks will have, without ours.
    """
    yield _working_dir(run, node)
    if run.script is not None:
        yield _file("script", run.script, node)
    elif run.module is not None:
        yield _module(run, run.module, node, user_path)
    elif run.recipe in BUILTIN_RECIPES:
        yield ok("recipe", node, f"recipe {run.recipe} is built in")
    elif run.recipe is not None:
        yield _file("recipe", run.recipe, node)


def _working_dir(run: Run, node: str) -> Check:
    path = Path(run.working_dir or ".")
    if not path.is_dir():
        why = "is not a folder" if path.exists() else "does not exist"
        return failed(
            "working_dir", node, f"working directory {path} {why}", "make it, or change run.working_dir"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        return failed(
            "working_dir",
            node,
            f"working directory {path} may not be entered",
            "change its mode, or run.working_dir",
        )
    return ok("working_dir", node, f"working directory {path}")


def _file(kind: str, name: str, node: str) -> Check:
    path = Path(name)
    if not path.exists():
        return failed(kind, node, f"{kind} {path} does not exist", f"correct run.{kind}, or write the file")
    if not path.is_file():
        return failed(kind, node, f"{kind} {path} is not a file", f"name a Python file in run.{kind}")
    if not os.access(path, os.R_OK):
        return failed(kind, node, f"{kind} {path} may not be read", "change its mode")
    return ok(kind, node, f"{kind} {path}")


def _module(run: Run, module: str, node: str, user_path: str) -> Check:
    """Check only the top package: finding what is inside would run its code."""
    folders = [run.working_dir or ".", *filter(None, user_path.split(os.pathsep))]
    top, _, rest = module.partition(".")
    for folder in folders:
        spec = PathFinder.find_spec(top, [folder])
        if spec is None:
            continue
        if rest and not _submodule_there(spec.submodule_search_locations or [], rest):
            return failed(
                "module", node, f"module {module} is not in {folder}", "correct run.module or run.working_dir"
            )
        return ok("module", node, f"module {module} in {folder}")
    if run.interpreter not in (None, sys.executable):
        return ok("module", node, f"module {module} is looked for by {run.interpreter} at the start")
    if PathFinder.find_spec(top, sys.path[1:]) is None:
        where = ", ".join(folders)
        return failed(
            "module",
            node,
            f"there is no module {top} in {where} nor among the installed packages",
            "correct run.module or run.working_dir, or install it",
        )
    return ok("module", node, f"module {module} is installed")


def _submodule_there(locations: list[str], rest: str) -> bool:
    parts = rest.split(".")
    for location in locations:
        base = Path(location, *parts)
        if base.is_dir() or list(base.parent.glob(f"{base.name}.*")):
            return True
    return False


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
