"""`torchdeck plan`: what a run would do, before it does it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli import exit_codes
from torchdeck.cli.problems import report
from torchdeck.cli.run_source import EXAMPLES, add_run_source, load_run_source

if TYPE_CHECKING:
    from torchdeck.plan.launch_plan import LaunchPlan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan",
        help="show what a run would do",
        description="Show what a run would do: placement, batch arithmetic, and what each node executes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_source(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    form.add_argument(
        "--export", choices=("sh", "bat"), help="write a script for each node that runs without Torchdeck"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for exported scripts; absent: print them"
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Plan and print; 0, or 2 for a bad config, 3 when it does not fit this machine."""
    from torchdeck.config.problems import ConfigError
    from torchdeck.launch.prepare import plan_from, survey

    try:
        loaded = load_run_source(args)
        plan = plan_from(loaded.config, survey(loaded.config), loaded.locate)
    except ConfigError as error:
        return report(error, as_json=args.json)
    if args.json:
        print(json.dumps(plan.document(), ensure_ascii=False, indent=1, sort_keys=True))
        return exit_codes.SUCCEEDED
    if args.export is not None:
        return _export(plan, args.export, args.out)
    from torchdeck.cli.plan_view import print_plan

    print_plan(plan)
    return exit_codes.SUCCEEDED


def _export(plan: LaunchPlan, form: str, out: Path | None) -> int:
    from torchdeck.plan.export_bat import ExportError, export_bat
    from torchdeck.plan.export_sh import export_sh

    export = export_sh if form == "sh" else export_bat
    try:
        scripts = {f"{node.name}.{form}": export(plan, node) for node in plan.nodes}
    except ExportError as error:
        print(f"torchdeck plan: {error}", file=sys.stderr)
        return exit_codes.USAGE
    if out is None:
        if len(scripts) > 1:
            print("torchdeck plan: there is a script for each of the nodes: say --out DIR", file=sys.stderr)
            return exit_codes.USAGE
        sys.stdout.write("".join(scripts.values()))
        return exit_codes.SUCCEEDED
    return _write(scripts, out)


def _write(scripts: dict[str, str], out: Path) -> int:
    from torchdeck.rundir.atomic import write_bytes

    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in scripts.items():
            path = out / name
            write_bytes(path, text.encode("utf-8"))
            path.chmod(0o755)
            print(path)
    except OSError as error:
        print(
            f"torchdeck plan: {out} cannot be written: {error.strerror}: name another --out", file=sys.stderr
        )
        return exit_codes.USAGE
    return exit_codes.SUCCEEDED
