"""`torchdeck runs logs`."""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any, TextIO

from torchdeck.cli.output import USAGE, json_text, unguarded, write_log_line
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals, whole_number
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.logs.log_ends import LogEnds
from torchdeck.runs.rank_output import OutputFollower, OutputLine, overwritten
from torchdeck.shown_text import shown, shown_log

POLL = 0.2
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("logs", help="show the output of ranks, in all attempts")
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--rank", type=int, metavar="R", help="only this rank, without its number in front")
    parser.add_argument("--stderr", action="store_true", help="standard error, not standard output")
    parser.add_argument(
        "--tail", type=whole_number, metavar="N", help="only the last N lines, by the time of printing"
    )
    parser.add_argument(
        "--since",
        type=moment_of,
        metavar="TIME",
        help="only lines printed since then: 10m, 2h, 1d12h ago, 14:30, or 2026-01-31T14:30",
    )
    parser.add_argument("--grep", metavar="REGEX", help="only lines that match; case matters")
    parser.add_argument("--follow", action="store_true", help="continue until the run is over")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print lines of ranks; 2 if there is no such rank."""
    layout = find_run(args.id)
    wrong = _no_such_rank(layout, args.rank)
    if wrong is not None:
        print(f"torchdeck: {wrong}", file=sys.stderr)
        return USAGE
    chosen = _Chosen(args)
    streams = ("stderr" if args.stderr else "stdout",)
    positions: Mapping[tuple[int, int, str], int] = {}
    if args.tail is not None or args.since is not None:
        ends = LogEnds(layout, streams=streams, rank=args.rank, ended_only=args.follow)
        since = -math.inf if args.since is None else args.since
        if args.tail is not None:
            chosen.print(ends.newest(args.tail, since=since, wanted=chosen.matches), searched=True)
        else:
            chosen.print(ends.since(since))
        positions = ends.positions
        if not args.follow:
            return 0
    output = OutputFollower(layout, streams=streams, rank=args.rank, positions=positions)
    if args.follow:
        _follow(layout, output, chosen)
    chosen.print_rest(output)
    return 0


def _follow(layout: RunLayout, output: OutputFollower, chosen: _Chosen) -> None:
    from torchdeck.contract.refusal import Refusal
    from torchdeck.use_cases.kept_controller import KeptController

    follower = RunFollower(layout)
    kept = KeptController(layout)
    while not (view := follower.refresh()).is_over:
        with suppress(Refusal):  # it is tried again
            kept.look(view)
        chosen.print(output.read_new())
        sys.stdout.flush()
        time.sleep(POLL)


def _no_such_rank(layout: RunLayout, rank: int | None) -> str | None:
    if rank is None:
        return None  # the journals need not be read
    world_size = RunFollower(layout).refresh().world_size
    if world_size is None or 0 <= rank < world_size:
        return None
    return f"there is no rank {rank}: the run has ranks 0 to {world_size - 1}"


class _Chosen:
    """Lines that are printed, and how."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Raises PatternError: --grep is not a regular expression."""
        self._bare = args.rank is not None
        self._as_json = args.json
        self._pattern = None
        if args.grep is not None:
            from torchdeck.runs.logs.line_pattern import LinePattern

            self._pattern = LinePattern(args.grep, match_case=True)

    def matches(self, text: str) -> bool:
        """Whether --grep wants a line. Raises SlowPatternError: it takes too long."""
        return self._pattern is None or self._pattern.is_in(text)

    def print(self, lines: Iterable[OutputLine], *, searched: bool = False) -> None:
        """Print those of `lines` that match; all if they were `searched` before."""
        for line in lines:
            if not searched and not self.matches(line.text):
                continue
            if self._as_json:
                print(json_text(asdict(line)))
            else:
                write_log_line("" if self._bare else f"[rank {line.rank}] ", line.text, sys.stdout)

    def print_rest(self, output: OutputFollower) -> None:
        """Print all that is left; plain text in blocks, as a log may have gigabytes."""
        if self._as_json or self._pattern is not None:
            self.print(output.read_rest())
            return
        for rank, block in output.read_rest_blocks():
            write_log_block("" if self._bare else f"[rank {rank}] ", block, sys.stdout)


_PLAIN = bytes((0x09, 0x0A, *range(0x20, 0x7F)))
"""Characters that are shown as they are: tab, line feed and printable ASCII."""


def write_log_block(head: str, block: bytes, stream: TextIO) -> None:
    """Write whole lines that a rank printed as `write_log_line` does each; fast if they are plain ASCII."""
    head, out = shown(head), unguarded(stream)
    if not block.translate(None, _PLAIN):
        text = block.decode("ascii")
        if head:
            text = head + text[:-1].replace("\n", f"\n{head}") + "\n"
        out.write(text)
        return
    lines = block[:-1].decode("utf-8", "replace").split("\n")
    safe = (line if line.isprintable() else shown_log(overwritten(line), colours=True) for line in lines)
    out.write("".join([f"{head}{line}\n" for line in safe]))


def moment_of(text: str) -> float:
    """Return the unix time that `10m`, `14:30` (today) or `2026-01-31T14:30` names.

    Raises:
        ArgumentTypeError: it names none.
    """
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return time.time() - sum(float(number) * _SECONDS[unit] for number, unit in parts)
    today = datetime.now().astimezone()
    try:
        if _CLOCK.fullmatch(text):
            text = f"{today.date()}T{text.zfill(5)}"
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: give how long ago (90s, 10m, 2h, 1d12h), a time of today (14:30), or a "
            "date with or without a time (2026-01-31T14:30)"
        ) from None
