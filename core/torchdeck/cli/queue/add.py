"""`torchdeck queue add` and `edit`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import reports_refusals
from torchdeck.cli.run_source import TRUST_HELP, add_run_source, load_run_source
from torchdeck.cli.terminal_ui import WITHOUT_MEMORY, TerminalUi
from torchdeck.runs.home import torchdeck_home

if TYPE_CHECKING:
    from torchdeck.queue.entry import DeviceOptions, Entry, QueuedFile
    from torchdeck.use_cases.queue.adding import Added, AddRequest


def add_parsers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    adding = commands.add_parser(
        "add",
        help="queue a run",
        usage="torchdeck queue add [RUN.toml | --script FILE | --module NAME] [options] [-- ARGUMENTS]",
        description="Queue a run. It is planned and checked, with its memory, as if all devices were free. "
        "The run file is kept as it is now; the code is copied when the run starts.",
    )
    add_run_source(adding)
    _add_options(adding)
    adding.set_defaults(handler=add)
    editing = commands.add_parser(
        "edit",
        help="change an entry that waits",
        usage="torchdeck queue edit ID [RUN.toml] [options]",
        description="Change an entry that waits; it keeps its position. Without RUN.toml --set changes the "
        "run file that the entry has.",
    )
    editing.add_argument("id", metavar="ID", help="id of the entry")
    add_run_source(editing)
    _add_options(editing)
    editing.set_defaults(handler=edit)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices", type=_count, metavar="N", help="any N free GPUs per node; default: as in the run file"
    )
    parser.add_argument("--gpu", metavar="MODEL", help='GPUs of this model, such as "H100"')
    parser.add_argument(
        "--memory", type=_size, metavar="SIZE", help="GPUs with at least this memory each, such as 80GB"
    )
    parser.add_argument(
        "--nodes",
        metavar="NODES",
        help="any, any:2, tag:TAG, tag:TAG:2: so many of these nodes; or names, all of which are used",
    )
    parser.add_argument("--priority", type=int, metavar="N", help="higher numbers start first (default: 0)")
    parser.add_argument(
        "--after",
        action="append",
        metavar="RUN[:succeeded]",
        help="an entry or run that must have ended, or succeeded; may be repeated",
    )
    parser.add_argument("--tag", action="append", metavar="TAG", help="a tag, for limits; may be repeated")
    parser.add_argument(
        "--unchecked", action="store_true", help="do not check it now, as its data is not there yet"
    )
    parser.add_argument("--trust", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


@reports_refusals
def add(args: argparse.Namespace) -> int:
    """Queue the run that the command line names."""
    from torchdeck.queue.entry import DeviceOptions
    from torchdeck.use_cases.queue.adding import add as add_entry

    request = _request(args, _file(args), _devices(args, DeviceOptions()))
    return _say(add_entry(request, torchdeck_home(), TerminalUi(WITHOUT_MEMORY)), args, "queued as")


@reports_refusals
def edit(args: argparse.Namespace) -> int:
    """Change an entry that waits."""
    from torchdeck.queue.queue_file import read_queue
    from torchdeck.use_cases.queue.adding import replace_entry

    home = torchdeck_home()
    entry = read_queue(home).find(args.id)
    file = _file(args) if _names_run(args) else _with_overrides(entry, args)
    request = _request(args, file, _devices(args, entry.devices))
    return _say(replace_entry(entry.id, request, home, TerminalUi(WITHOUT_MEMORY)), args, "changed:")


def _names_run(args: argparse.Namespace) -> bool:
    return any(each is not None for each in (args.run_file, args.script, args.module))


def _file(args: argparse.Namespace) -> QueuedFile:
    from torchdeck.queue.entry import QueuedFile

    loaded = load_run_source(args)
    is_file = args.run_file is not None
    # the text of a command line has its overrides already
    overrides = [*args.overrides, *_nproc(args)] if is_file else []
    return QueuedFile(loaded.text, str(loaded.path), str(Path.cwd()), tuple(overrides), is_file=is_file)


def _with_overrides(entry: Entry, args: argparse.Namespace) -> QueuedFile:
    """Return the entry's run file with further overrides, whose paths must be absolute elsewhere."""
    overrides = (*entry.file.overrides, *args.overrides, *_nproc(args))
    return replace(entry.file, overrides=overrides)


def _nproc(args: argparse.Namespace) -> list[str]:
    return [] if args.nproc is None else [f"distributed.nproc={args.nproc}"]


def _devices(args: argparse.Namespace, before: DeviceOptions) -> DeviceOptions:
    given = {"gpus": args.devices, "model": args.gpu, "memory": args.memory, "nodes": args.nodes}
    return replace(before, **{name: value for name, value in given.items() if value is not None})


def _request(args: argparse.Namespace, file: QueuedFile, devices: DeviceOptions) -> AddRequest:
    from torchdeck.use_cases.queue.adding import AddRequest, loaded_file

    return AddRequest(
        loaded_file(file),
        file,
        devices,
        priority=args.priority,
        tags=None if args.tag is None else tuple(args.tag),
        after=None if args.after is None else tuple(args.after),
        trust=args.trust,
        check=not args.unchecked,
    )


def _say(added: Added, args: argparse.Namespace, what: str) -> int:
    from torchdeck.plan.planner import describe_placement
    from torchdeck.use_cases.queue.listing import ListedEntry
    from torchdeck.use_cases.queue.status import read_status

    listed = ListedEntry(added.entry, "")
    placement = "" if added.plan is None else describe_placement(added.plan)
    if args.json:
        document = {**listed.to_json(), "placement": placement, "warnings": list(added.warnings)}
        print(json_text(document))
        return SUCCEEDED
    for warning in added.warnings:
        print(f"torchdeck: warning: {warning}", file=sys.stderr)
    shown = f"; if all were free: {placement}" if placement else ""
    print(f"{what} {added.entry.id} ({added.entry.name}): needs {listed.needs}{shown}")
    if not read_status(torchdeck_home()).is_running:
        print("torchdeck: no server runs: `torchdeck queue serve` starts what is queued", file=sys.stderr)
    return SUCCEEDED


def _count(text: str) -> int:
    if text.isdecimal() and text.isascii() and 1 <= int(text) <= 1024:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs, 1 or more")


def _size(text: str) -> int:
    from torchdeck.config.values.numbers import parse_size

    try:
        return int(parse_size(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; expected a number with its unit, such as 80GB") from None
