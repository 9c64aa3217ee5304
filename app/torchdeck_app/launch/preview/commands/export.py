"""Scripts that start a plan without Torchdeck, and writing them. Without Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from torchdeck.plan.export_bat import export_bat
from torchdeck.plan.export_sbatch import export_sbatch
from torchdeck.plan.export_sh import export_sh
from torchdeck.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.rundir.atomic import write_bytes

FORMS: Mapping[str, Callable[[LaunchPlan, NodePlan], str]] = {"sh": export_sh, "bat": export_bat}
"""Ending of the file → what makes the script."""


def write_script(plan: LaunchPlan, node: NodePlan, form: str, path: Path) -> Path:
    """Write the script of one node.

    Raises:
        ExportError: a batch file cannot say it.
        OSError: the file cannot be written.
    """
    write_bytes(path, FORMS[form](plan, node).encode("utf-8"))
    if form == "sh":
        path.chmod(0o755)
    return path


def write_scripts(plan: LaunchPlan, form: str, folder: Path, check: Callable[[], None]) -> Path:
    """Write the script of every node into `folder`, named after it; raises as `write_script` does.

    Args:
        plan: whose.
        form: `sh` or `bat`.
        folder: that is there.
        check: called between nodes; what it raises ends it.
    """
    for node in plan.nodes:
        check()
        write_script(plan, node, form, folder / f"{node.name}.{form}")
    return folder


def write_job(plan: LaunchPlan, path: Path) -> Path:
    """Write the one script that Slurm's sbatch starts all nodes with.

    Raises:
        OSError: the file cannot be written.
    """
    write_bytes(path, export_sbatch(plan).encode("utf-8"))
    return path


def held_secrets(nodes: Iterable[NodePlan], is_secret: Callable[[str], bool]) -> tuple[str, ...]:
    """Names of variables whose values a script of `nodes` holds although nobody should see them."""
    return tuple(sorted({name for node in nodes for name in node.env if is_secret(name)}))
