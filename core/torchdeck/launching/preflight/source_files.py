"""Check that the files to run exist: script, recipe, module, working directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, Run, RunConfig
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.trust.trusted_entry import Held


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
            f"working directory {path} cannot be entered: permission denied",
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
        return failed(kind, node, f"{kind} {path} cannot be read: permission denied", "change its mode")
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
        return ok("module", node, f"{run.interpreter} searches module {module} at the start")
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


# Check that the checkpoint from which a run shall resume exists and is complete.


def check_resume(config: RunConfig, node: str) -> Iterator[Check]:
    """Check the checkpoint named by checkpoint.resume; for `auto`, the content of a folder that the config
    names.
    """
    resume = config.checkpoint.resume
    if resume == "never":
        return
    if resume == "auto":
        directory = config.checkpoint.directory
        # the check of folders reports a file in its place
        if directory is not None and config.run.recipe is not None and not Path(directory).is_file():
            yield _auto(Path(directory), node)
        return
    path = Path(resume)
    if not path.exists():
        yield _failed(f"checkpoint {path} does not exist", node)
    elif config.run.recipe is None and not (path / "manifest.json").is_file():
        yield _of_script(path, node)
    else:
        yield _ours(path, node)


def _of_script(path: Path, node: str) -> Check:
    """Check a checkpoint that a script wrote by itself."""
    from torchdeck.trainers.checkpoints.checkpoint_search import look_at

    found = look_at(path)
    if found is None:
        return _failed(f"{path} is no checkpoint of a known kind", node)
    if found.incomplete:
        return _failed(f"checkpoint {path} is not complete: {found.incomplete}", node)
    step = "" if found.step is None else f"step {found.step} in "
    return ok("resume", node, f"continues from {step}{path}")


def _ours(path: Path, node: str) -> Check:
    from torchdeck.contract.checkpoints.listing import list_checkpoints
    from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest

    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        inside = [info.path.name for info in list_checkpoints(path) if info.complete] if path.is_dir() else []
        if inside:
            return _failed(
                f"{path} contains checkpoints but is not one itself",
                node,
                f"choose one of them, such as {inside[-1]}",
            )
        return _failed(str(error), node)
    for name, entry in manifest.files_here.items():
        file = path / name
        if not file.is_file():
            return _failed(f"checkpoint {path} is incomplete: {name} is missing", node)
        if file.stat().st_size != entry.size:
            return _failed(
                f"checkpoint {path} is damaged: {name} does not have the {entry.size} bytes it should", node
            )
    return ok("resume", node, f"continues from step {manifest.step} in {path}")


def _auto(directory: Path, node: str) -> Check:
    from torchdeck.contract.checkpoints.listing import list_checkpoints
    from torchdeck.contract.checkpoints.manifest import CheckpointError

    try:
        found = list_checkpoints(directory)
    except CheckpointError as error:
        return _failed(str(error), node)
    complete = [info for info in found if info.complete]
    if complete:
        return ok("resume", node, f"continues from step {complete[-1].step} in {complete[-1].path}")
    if found:
        return warning(
            "resume",
            node,
            f"{directory} holds no complete checkpoint ({found[-1].why})",
            "training starts from the beginning",
        )
    return ok("resume", node, f"there is no checkpoint in {directory} yet")


def _failed(what: str, node: str, fix: str = "") -> Check:
    return failed("resume", node, what, fix or 'correct checkpoint.resume, or set it to "auto" or "never"')
