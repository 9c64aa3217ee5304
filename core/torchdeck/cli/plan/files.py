"""Files written by `torchdeck plan`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli import exit_codes
from torchdeck.cli.safe_output import write_document

if TYPE_CHECKING:
    from torchdeck.contract.plan.launch_plan import LaunchPlan


def plan_failure(sentence: str) -> int:
    """Print the reason; return its exit code."""
    print(f"torchdeck plan: {sentence}", file=sys.stderr)
    return exit_codes.USAGE


def export_scripts(plan: LaunchPlan, form: str, out: Path | None) -> int:
    """Export the plan as scripts, written to `out` or printed.

    Args:
        plan: the plan that they start.
        form: `sh`, a script for each node in the folder `out`; `sbatch`, one in the file `out`.
        out: the destination; None prints, if it is one script.
    """
    if form == "sbatch":
        return _export_job(plan, out)
    from torchdeck.plan.export.shell_script import export_sh

    scripts = {f"{node.name}.sh": export_sh(plan, node) for node in plan.nodes}
    if out is None:
        if len(scripts) > 1:
            return plan_failure("there is a script for each of the nodes: say --out DIR")
        write_document("".join(scripts.values()))
        return exit_codes.SUCCEEDED
    return _write_scripts(scripts, out)


def _export_job(plan: LaunchPlan, out: Path | None) -> int:
    from torchdeck.plan.export.sbatch_script import export_sbatch

    script = export_sbatch(plan)
    if out is not None:
        return write_file(out, script)
    write_document(script)
    return exit_codes.SUCCEEDED


def write_file(path: Path, text: str) -> int:
    """Write `text` whole or not at all, and print the path."""
    from torchdeck.contract.atomic import write_bytes

    try:
        write_bytes(path, text.encode("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: a path without a name, or with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        return plan_failure(f"{path} cannot be written: {why}: name another file")
    print(path)
    return exit_codes.SUCCEEDED


def _write_scripts(scripts: dict[str, str], out: Path) -> int:
    from torchdeck.contract.atomic import write_bytes

    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in scripts.items():
            path = out / name
            write_bytes(path, text.encode("utf-8"))
            path.chmod(0o755)
            print(path)
    except OSError as error:
        return plan_failure(f"{out} cannot be written: {error.strerror}: name another --out")
    return exit_codes.SUCCEEDED
