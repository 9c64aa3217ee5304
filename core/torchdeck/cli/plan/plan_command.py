"""`torchdeck plan`: preview a run without starting it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.output import REFUSED, SUCCEEDED, USAGE, json_text, write_document
from torchdeck.cli.refusals import report
from torchdeck.cli.run_source import TRUST_HELP, add_run_source, load_run_source
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.ui import Phase

if TYPE_CHECKING:
    from torchdeck.config.machines.slurm import Slurm
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.plan.preview import Preview


KUBERNETES = ("trainjob", "jobset", "pytorchjob")
"""Objects of Kubernetes that a plan can be exported as."""
DESCRIPTION = """\
Show what a run will do, and start nothing: which rank runs on which device, how large a step is, what each
rank reads, how much memory it needs and whether that fits.

For memory the model is built without its weights, and one step of it is traced in a separate process. The
result is cached. A script or module is not traced.

Exits with 2 for a wrong run file. Exits with 3 if the plan does not fit the machines, or if every rank would
fail at once: its file is missing, or importing the recipe or building its model raises an exception.
"""
EXAMPLES = """\
examples:
  torchdeck plan run.toml                          the whole preview
  torchdeck plan run.toml --rank 3                 where rank 3 is, what it reads, what it holds
  torchdeck plan run.toml --compare ddp,fsdp       memory under either strategy
  torchdeck plan run.toml --set training.microbatch=32
  torchdeck plan run.toml --svg plan.svg           the same as a picture
  torchdeck plan run.toml --commands               what each node executes
  torchdeck plan run.toml --files                  which files of yours it gets a copy of
  torchdeck plan run.toml --export sbatch --out run.sbatch
                                                   the same run as a job of Slurm
  torchdeck plan run.toml --export jobset --out run.yaml
                                                   the same run for Kubernetes
  torchdeck plan --script train.py --nproc 2 -- --lr 0.1
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan",
        help="show what a run will do",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_source(parser)
    form = parser.add_argument_group("show this instead of the preview").add_mutually_exclusive_group()
    form.add_argument("--commands", action="store_true", help="what each node executes, and its environment")
    form.add_argument("--files", action="store_true", help="your files that are copied for the run")
    form.add_argument(
        "--json",
        action="store_true",
        help="the whole plan, with the preview under `preview`; `python -m pydoc "
        "torchdeck.plan.preview.preview_json` explains its keys",
    )
    form.add_argument("--svg", type=Path, metavar="FILE", help="write the preview as a picture")
    form.add_argument(
        "--export",
        choices=("sh", "sbatch", *KUBERNETES),
        help="write a script for each node that runs without Torchdeck, one for Slurm's sbatch, or YAML for "
        "Kubernetes: a TrainJob or PyTorchJob of Kubeflow, or a JobSet",
    )
    parser.add_argument(
        "--compare",
        metavar="A,B,…",
        help="compare strategies: ddp, fsdp, hsdp, zero1, zero2, zero3; as text or with --json",
    )
    parser.add_argument("--rank", type=int, metavar="N", help="all about one rank, as text or with --json")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="folder for exported scripts, file for sbatch and YAML; default: print them",
    )
    parser.add_argument(
        "--no-trace",
        action="store_true",
        help="do not build the model: start no process, predict no memory",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help=TRUST_HELP,
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Plan and print; 0, or 2 for a bad config, 3 if it does not fit these machines or must fail."""
    from torchdeck.config.problems import ConfigError
    from torchdeck.use_cases.plan import PlanRequest, plan

    wrong = wrong_options(args)
    if wrong is not None:
        return plan_failure(wrong)
    try:
        loaded = load_run_source(args)
        trace = not (args.no_trace or args.files or args.export)
        ui = TerminalUi({Phase.MODEL: "--no-trace: without it"})
        found = plan(PlanRequest(loaded, trust=args.trust, trace=trace), ui)
    except ConfigError as error:
        return report(error, as_json=args.json)
    except Refusal as error:
        return plan_failure(str(error))
    if args.export is not None:
        return export_scripts(found.plan, args.export, args.out, loaded.config.slurm)
    from torchdeck.plan.preview import make_preview

    shown = _show(args, make_preview(loaded.config, found.plan, found.inventory, found.known))
    return REFUSED if shown == SUCCEEDED and found.known.broken else shown


def _show(args: argparse.Namespace, preview: Preview) -> int:
    if args.rank is not None:
        return _show_rank(preview, args.rank, as_json=args.json)
    if args.compare is not None:
        return _show_strategies(preview, args.compare, as_json=args.json)
    if args.json:
        from torchdeck.plan.preview.preview_json import document

        value = {**preview.plan.document(), "preview": document(preview)}
        print(json_text(value, indent=1, sort_keys=True))
        return SUCCEEDED
    if args.svg is not None:
        from torchdeck.cli.plan.svg_page import preview_svg

        return write_file(args.svg, preview_svg(preview))
    from torchdeck.cli.plan.lines import make_wide_console

    if args.commands:
        from torchdeck.cli.plan.node_commands import command_lines

        for line in command_lines(preview.plan):
            print(line)
        return SUCCEEDED
    if args.files:
        from torchdeck.cli.plan.node_commands import file_lines

        for line in file_lines(preview.plan.code):
            print(line)
        return SUCCEEDED
    from torchdeck.cli.plan.terminal_views import print_preview

    print_preview(preview, make_wide_console())
    return SUCCEEDED


def _show_rank(preview: Preview, number: int, *, as_json: bool) -> int:
    from torchdeck.plan.preview.rank_preview import make_rank

    try:
        rank = make_rank(preview, number)
    except ValueError as error:
        return plan_failure(str(error))
    if as_json:
        print(json_text(rank.document(), indent=1))
        return SUCCEEDED
    from torchdeck.cli.plan.lines import make_wide_console
    from torchdeck.cli.plan.terminal_views import print_rank

    print_rank(rank, make_wide_console())
    return SUCCEEDED


def _show_strategies(preview: Preview, words: str, *, as_json: bool) -> int:
    from torchdeck.plan.preview.strategies import compare_strategies, strategy_kinds

    try:
        rows = compare_strategies(preview, strategy_kinds([word.strip() for word in words.split(",")]))
    except ValueError as error:
        return plan_failure(str(error))
    if as_json:
        print(json_text([row.document() for row in rows], indent=1))
        return SUCCEEDED
    from torchdeck.cli.plan.lines import make_wide_console
    from torchdeck.cli.plan.terminal_views import print_strategies

    print_strategies(preview, rows, make_wide_console())
    return SUCCEEDED


# Options of `torchdeck plan` that conflict or name no file: reported before anything is planned.


def wrong_options(args: argparse.Namespace) -> str | None:
    """Return what is wrong with the combination of options and the remedy; None if nothing is."""
    asked = [option for option in ("--rank", "--compare") if _value(args, option) is not None]
    if len(asked) > 1:
        return "--rank and --compare exclude each other"
    for option in ("--commands", "--files", "--svg", "--export"):
        if asked and _value(args, option) not in (None, False):
            return f"{asked[0]} is available as text or with --json: leave {option} or {asked[0]} out"
    if args.out is not None and args.export is None:
        return "--out needs --export"
    return None if args.svg is None else _no_file(args.svg)


def _no_file(path: Path) -> str | None:
    """Return why no picture can be written to `path`, as far as can be checked before it is drawn."""
    try:
        if path.is_dir():
            return f"{path} cannot be written: it is a folder: name a file, such as {path / 'plan.svg'}"
        if not path.absolute().parent.is_dir():
            return f"{path} cannot be written: there is no folder {path.parent}: name another file"
    except (OSError, ValueError):  # name too long, or with a NUL: writing reports it
        return None
    return None


def _value(args: argparse.Namespace, option: str) -> object:
    return getattr(args, option.removeprefix("--"))


# Files written by `torchdeck plan`.


def plan_failure(sentence: str) -> int:
    """Print the reason; return its exit code."""
    print(f"torchdeck plan: {sentence}", file=sys.stderr)
    return USAGE


def export_scripts(plan: LaunchPlan, form: str, out: Path | None, slurm: Slurm) -> int:
    """Export the plan as scripts, written to `out` or printed.

    Args:
        plan: the plan that they start.
        form: `sh`, a script for each node in the folder `out`; `sbatch` or one of `KUBERNETES`, in the file
            `out`.
        out: the destination; None prints, if it is one script.
        slurm: what a job asks of Slurm.
    """
    if form == "sbatch":
        from torchdeck.plan.export.sbatch_script import export_sbatch

        return _write_one(export_sbatch(plan, slurm), out)
    if form in KUBERNETES:
        return _export_kubernetes(plan, form, out)
    from torchdeck.plan.export.shell_script import export_sh

    scripts = {f"{node.name}.sh": export_sh(plan, node) for node in plan.nodes}
    if out is None:
        if len(scripts) > 1:
            return plan_failure("there is one script per node: give --out DIR")
        write_document("".join(scripts.values()))
        return SUCCEEDED
    return _write_scripts(scripts, out)


def _export_kubernetes(plan: LaunchPlan, kind: str, out: Path | None) -> int:
    """Write the object, and say what the user must fill in."""
    from torchdeck.plan.export.kubernetes import FILL_IN, export_kubernetes

    made = export_kubernetes(plan, kind)
    code = _write_one(made.text, out)
    if code == SUCCEEDED:
        print(f"torchdeck plan: fill in, where it says {FILL_IN}:", file=sys.stderr)
        for each in made.missing:
            print(f"  {each}", file=sys.stderr)
    return code


def _write_one(text: str, out: Path | None) -> int:
    if out is not None:
        return write_file(out, text)
    write_document(text)
    return SUCCEEDED


def write_file(path: Path, text: str) -> int:
    """Write `text` whole or not at all, and print the path."""
    from torchdeck.contract.atomic import write_bytes

    try:
        write_bytes(path, text.encode("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: a path without a name, or with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        return plan_failure(f"{path} cannot be written: {why}: name another file")
    print(path)
    return SUCCEEDED


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
    return SUCCEEDED
