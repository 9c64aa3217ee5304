"""Export of scripts that start a plan without Torchdeck. Without Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.plan.export.shell_script import export_sh


def write_script(plan: LaunchPlan, node: NodePlan, path: Path) -> Path:
    """Write the shell script of one node.

    Raises:
        OSError: the file cannot be written.
    """
    write_bytes(path, export_sh(plan, node).encode("utf-8"))
    path.chmod(0o755)
    return path


def write_scripts(plan: LaunchPlan, folder: Path, check: Callable[[], None]) -> Path:
    """Write the script of every node to `folder`, named after the node; raises as `write_script` does.

    Args:
        plan: plan to export.
        folder: an existing folder.
        check: called between nodes; an exception from it ends the export.
    """
    for node in plan.nodes:
        check()
        write_script(plan, node, folder / f"{node.name}.sh")
    return folder


def write_job(plan: LaunchPlan, path: Path) -> Path:
    """Write the single script with which Slurm's sbatch starts all nodes.

    Raises:
        OSError: the file cannot be written.
    """
    write_bytes(path, export_sbatch(plan).encode("utf-8"))
    return path


def held_secrets(nodes: Iterable[NodePlan], is_secret: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the names of variables whose secret values a script of `nodes` contains."""
    return tuple(sorted({name for node in nodes for name in node.env if is_secret(name)}))
