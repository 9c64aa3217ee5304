"""`torchdeck queue move`, `pause`, `resume`, `remove` and `limit`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import reports_refusals
from torchdeck.runs.home import torchdeck_home

if TYPE_CHECKING:
    from torchdeck.queue.state import Queue, QueueLimits

NONE = "none"


def add_parsers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    moved = commands.add_parser(
        "move",
        help="change the order of entries that wait",
        description="Move an entry that waits. Before another one, it gets the priority of that one.",
    )
    moved.add_argument("id", metavar="ID", help="id of the entry")
    where = moved.add_mutually_exclusive_group(required=True)
    where.add_argument("--first", action="store_true", help="before all others")
    where.add_argument("--last", action="store_true", help="behind all others of its priority")
    where.add_argument("--before", metavar="ID", help="before another entry")
    where.add_argument(
        "--priority", type=int, metavar="N", help="set its priority; higher numbers come first"
    )
    moved.set_defaults(handler=move)
    for name, act, text in (
        ("pause", _pause, "let entries wait until `queue resume`, whatever is free"),
        ("resume", _resume, "let paused entries start"),
        ("remove", _remove, "remove entries that wait or have ended; runs stay as they are"),
    ):
        parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        parser.add_argument("ids", nargs="+", metavar="ID", help="ids of entries")
        parser.set_defaults(handler=_handler(act))
    _add_limit_parser(commands)


def _add_limit_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "limit",
        help="show or set how many runs the queue starts at once",
        description="Show the limits of the queue, or set some. A CPU run takes one slot on each of its "
        "nodes; a GPU run takes its GPUs and no slot.",
    )
    parser.add_argument(
        "--slots",
        action="append",
        type=_numbered,
        default=[],
        metavar="[NODE=]N",
        help="CPU runs at once on a node, or on each other node (default: 1)",
    )
    parser.add_argument("--per-user", type=_number, metavar="N", help="runs at once of a user, or none")
    parser.add_argument(
        "--tag",
        action="append",
        type=_numbered,
        default=[],
        metavar="TAG=N",
        help="runs at once with a tag, or none; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=limit)


@reports_refusals
def move(args: argparse.Namespace) -> int:
    """Move one entry, and print the order."""
    from torchdeck.use_cases.queue import editing

    home = torchdeck_home()
    if args.priority is not None:
        queue = editing.set_priority(home, args.id, args.priority)
    elif args.first:
        queue = editing.move_first(home, args.id)
    else:
        queue = editing.move(home, args.id, args.before)
    print(f"order: {', '.join(entry.id for entry in queue.waiting())}")
    return SUCCEEDED


def _handler(act: Callable[[Path, Sequence[str]], Queue]) -> Callable[[argparse.Namespace], int]:
    @reports_refusals
    def handler(args: argparse.Namespace) -> int:
        act(torchdeck_home(), args.ids)
        return SUCCEEDED

    return handler


def _pause(home: Path, ids: Sequence[str]) -> Queue:
    from torchdeck.use_cases.queue.editing import pause

    return pause(home, ids)


def _resume(home: Path, ids: Sequence[str]) -> Queue:
    from torchdeck.use_cases.queue.editing import resume

    return resume(home, ids)


def _remove(home: Path, ids: Sequence[str]) -> Queue:
    from torchdeck.use_cases.queue.editing import remove

    return remove(home, ids)


@reports_refusals
def limit(args: argparse.Namespace) -> int:
    """Set what is given, and print all limits."""
    from torchdeck.use_cases.queue.editing import set_limits

    limits = set_limits(torchdeck_home(), lambda before: _changed(before, args))
    document = {
        "default_slots": limits.default_slots,
        "slots": dict(limits.slots),
        "per_user": limits.per_user,
        "per_tag": dict(limits.per_tag),
    }
    if args.json:
        print(json_text(document))
        return SUCCEEDED
    slots = "".join(f"; {node}: {count}" for node, count in limits.slots.items())
    print(f"CPU slots per node: {limits.default_slots}{slots}")
    print(f"runs per user: {NONE if limits.per_user is None else limits.per_user}")
    for tag, count in limits.per_tag.items():
        print(f"runs with tag {tag}: {count}")
    return SUCCEEDED


def _changed(before: QueueLimits, args: argparse.Namespace) -> QueueLimits:
    slots, default, per_tag = dict(before.slots), before.default_slots, dict(before.per_tag)
    for node, count in args.slots:
        if not node:
            default = 1 if count is None else count
        elif count is None:
            slots.pop(node, None)
        else:
            slots[node] = count
    for tag, count in args.tag:
        if count is None:
            per_tag.pop(tag, None)
        else:
            per_tag[tag] = count
    per_user = before.per_user
    if args.per_user is not None:
        per_user = None if args.per_user == NONE else args.per_user
    return replace(before, slots=slots, default_slots=default, per_tag=per_tag, per_user=per_user)


def _number(text: str) -> int | str:
    """Parse a number, or `none`."""
    if text == NONE:
        return NONE
    if text.isdecimal() and text.isascii():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor {NONE}")


def _numbered(text: str) -> tuple[str, int | None]:
    """Parse `NAME=N`, `NAME=none` or `N`."""
    name, _, value = text.rpartition("=")
    number = _number(value)
    return name, number if isinstance(number, int) else None
