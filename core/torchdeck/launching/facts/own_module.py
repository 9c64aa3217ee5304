"""A module of the user's that is called `torchdeck`, too."""

from __future__ import annotations

from pathlib import Path

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig

_OURS = "contract/package.py"
"""File by which a folder is known to be Torchdeck itself, whose own programs are launched, too."""


def own_module(config: RunConfig) -> Path | None:
    """Return the user's module that Python would import as `torchdeck` in ranks, before ours; None without
    one.
    """
    run = config.run
    folder = Path(run.working_dir or Path.cwd()) if run.script is None else Path(run.script).parent
    file, package = folder / "torchdeck.py", folder / "torchdeck"
    if (package / "__init__.py").is_file():  # Python prefers it to the file
        return None if (package / _OURS).is_file() else package
    return file if file.is_file() else None


def without_callbacks(config: RunConfig) -> RunConfig:
    """Return `config` without callbacks: importing them would hide the user's module from the script."""
    telemetry = config.telemetry.model_copy(update={"inside": False})
    return config.model_copy(update={"telemetry": telemetry})


def warning_of(module: Path) -> str:
    """Return what a script with such a module lacks."""
    return (
        f"{module} is what the script imports as torchdeck: no callbacks are added (telemetry.inside), and "
        "the script cannot call Torchdeck; rename the module to have both"
    )


def problem_of(module: Path) -> Problem:
    """Return why a recipe cannot run next to such a module."""
    what = f"a recipe runs Torchdeck's trainer, and {module} would be imported instead of Torchdeck"
    return Problem("run.recipe", "", None, what, "rename it, or set run.working_dir to another folder")
