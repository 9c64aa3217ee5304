"""`torchdeck runs show`."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torchdeck.cli.output import json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import duration, moment
from torchdeck.runs import reasons
from torchdeck.runs.audit.result import DEFECT, table_lines
from torchdeck.runs.failure import diagnose
from torchdeck.runs.failures.chapter import Recognised
from torchdeck.runs.folders.git_state import read_git_state
from torchdeck.runs.folders.origin import code_sentence
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.links import Links
from torchdeck.runs.metric_damage import MetricDamage
from torchdeck.runs.replay import typed
from torchdeck.runs.run_state import AttemptView, RankView
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.training_progress import callback_failures, origins_sentence, script_state
from torchdeck.runs.view import RunView

POLL = 0.5
_NEWS = ("state", "why", "attempt", "checkpoint", "hangs", "stragglers")
"""Fields of a run whose change is worth a new display."""
_WIDTH = 100
"""Characters per line of advice."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "show", help="show one run: state, reason, first failing rank, predicted and measured values"
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--follow", action="store_true", help="print it again at every change of state, until the run is over"
    )
    parser.add_argument(
        "--audit-all",
        action="store_true",
        help="compare every sample of a large run with its plan, however long it takes",
    )
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print all details of a run."""
    layout = find_run(args.id)
    follower = RunFollower(layout)
    view = follower.refresh()
    _print(layout, view, follower.links, args)
    keep_fencing(layout, view)
    if args.follow:
        _follow(layout, view, follower, args)
    return 0


def _follow(layout: RunLayout, shown: RunView, follower: RunFollower, args: argparse.Namespace) -> None:
    from torchdeck.contract.refusal import Refusal
    from torchdeck.use_cases.kept_controller import KeptController

    kept = KeptController(layout)
    while not shown.is_over:
        time.sleep(POLL)
        view = follower.refresh()
        with suppress(Refusal):  # it is tried again
            kept.look(view)
        if any(getattr(view, name) != getattr(shown, name) for name in _NEWS):
            shown = view
            _print(layout, view, follower.links, args)
            sys.stdout.flush()


def _print(layout: RunLayout, view: RunView, links: Links | None, args: argparse.Namespace) -> None:
    from torchdeck.runs.audit.audit import audit_run
    from torchdeck.runs.audit.samples import Limits
    from torchdeck.runs.goodput.reading import read_goodput
    from torchdeck.runs.goodput.texts import goodput_lines

    audit = audit_run(layout, view, Limits.none() if args.audit_all else None)
    goodput = None
    with suppress(OSError):  # a file may have been removed
        goodput = read_goodput(layout, view)
    known, damage = diagnose(layout, view), MetricDamage(layout).look(is_over=view.is_over)
    if args.json:
        script = None if view.kind == "recipe" else script_state(layout, view.world_size or 1)
        value = {
            "directory": str(layout.root),
            "origins": {}
            if script is None
            else {fact: origin.name for fact, origin in script.origins.items()},
            "damaged_metrics": list(damage),
            "callback_failures": list(callback_failures(layout)),
            "audit": None if audit is None else audit.to_json(),
            "links": {} if links is None else {name: link.to_json() for name, link in links.nodes.items()},
            "advice": None if known is None else known.to_json(),
            "goodput": None if goodput is None else goodput.to_json(),
        }
        print(json_text({**view.to_json(), **value}, indent=1))
        return
    head, *rest = summary_lines(view, audit=audit)
    table = () if audit is None else (f"  {line}" for line in table_lines(audit))
    advice = () if known is None else advice_lines(known)
    nodes = [*(() if view.is_over else _nodes(layout, links))]
    nodes += () if goodput is None else (f"  {line}" for line in goodput_lines(goodput))
    late = (*_unfollowed(view), *_unfenced(view), *(f"  {each}" for each in damage))
    for line in (head, *late, *_facts(view, layout), *nodes, *table, *rest, *advice):
        _say(line)


def advice_lines(known: Recognised) -> Iterator[str]:
    """Lines on a recognised failure, and what the troubleshooting chapter says about it."""
    yield ""
    yield f"  {known.advice.title}"
    yield f"  {known.where}: {known.line}"
    yield ""
    for paragraph in known.advice.text.split("\n\n"):
        yield from (f"    {line}" for line in textwrap.wrap(paragraph.replace("`", ""), _WIDTH))
    yield f"    help: torchdeck docs {known.advice.page}"


def _say(line: str) -> None:
    """Print a line; one that reports a defect stands out on a terminal."""
    if DEFECT in line and sys.stdout.isatty():
        from rich.text import Text

        from torchdeck.cli.console import make_console
        from torchdeck.cli.runs.terminal import DEFECT_COLOUR

        make_console().print(Text(line, style=DEFECT_COLOUR), soft_wrap=True)
    else:
        print(line)


def _unfollowed(view: RunView) -> Iterator[str]:
    """Yield a note that the state above is an old one."""
    if view.followed_until is not None:
        yield f"  {reasons.unfollowed(time.time() - view.followed_until)}"


def _unfenced(view: RunView) -> Iterator[str]:
    """Nodes on which a lost run may still be alive."""
    if view.unfenced:
        nodes = ", ".join(view.unfenced)
        yield f"  node {nodes} has not answered since: anything still running there is ended when it does"


def _facts(view: RunView, layout: RunLayout) -> Iterator[str]:
    if view.world_size is not None:  # from the first line of the journal
        ranks = "1 rank" if view.world_size == 1 else f"{view.world_size} ranks"
        strategy = f", {view.strategy}" if view.kind == "recipe" else ""
        job = f", Slurm job {view.job}" if view.job else ""
        yield f"  {view.kind} {view.target}, {ranks}{strategy}{job}"
    yield f"  created {moment(view.created)}, started {moment(view.started)}, ended {moment(view.ended)}"
    said: tuple[str, ...] = ()
    for attempt in view.attempts:
        yield f"  attempt {attempt.number}: {_attempt(attempt, view)}"
        if attempt.given_up:
            yield f"    continues without {attempt.given_up}"
        yield from (f"    {note}" for note in attempt.notes if note not in said)
        said = attempt.notes
        traces = sorted(layout.attempt(attempt.number).ranks.glob("*/trace.json.gz"))
        if traces:
            yield f"    traces of steps, for Perfetto or chrome://tracing: {', '.join(map(str, traces))}"
        if attempt.rendezvous == "c10d" and not attempt.notes:
            yield "    rendezvous c10d: rank order not guaranteed"
    for rank in view.ranks if not view.is_over else ():
        yield f"  rank {rank.rank}: {_progress(rank, view)}"
    if view.found_ranks:
        found = ", ".join(f"{rank} (process {pid})" for rank, pid in view.found_ranks)
        yield f"  ranks that the program started: {found}"
    script = None if view.kind == "recipe" else script_state(layout, view.world_size or 1)
    origins = "" if script is None else origins_sentence(script)
    if origins:
        yield f"  progress: {origins}"
    yield from (f"  {failure}" for failure in callback_failures(layout))
    yield from (f"  alert at {moment(alert.time)}: {alert.sentence}" for alert in view.alerts)
    code = code_sentence(read_json(layout.plan))
    if code:
        yield f"  {code}"
    state = read_git_state(layout)
    if state is not None:
        yield f"  {state.sentence} (torchdeck runs diff {view.id})"
    yield f"  directory: {layout.root}"


def _progress(rank: RankView, view: RunView) -> str:
    """Return a rank's progress; a script that counts no steps reports none and is never stalled."""
    counts = bool(rank.step or rank.total)
    if not counts and view.kind != "recipe" and rank.phase in ("", "starting", "running"):
        return "running, reports no progress" if rank.phase == "running" else "no progress reported"
    step = f" step {rank.step}" if counts and rank.step is not None else ""
    if rank.exit is not None:
        return f"ended{step} ({rank.exit.signal or f'exit code {rank.exit.code}'})"
    still = "" if rank.still is None else f", last progress {rank.still:.0f} s ago"
    if view.followed_until is not None:
        still = " at the last report"
    return f"{rank.phase or 'no progress reported'}{step}{still}"


def _nodes(layout: RunLayout, links: Links | None) -> Iterator[str]:
    """Nodes of an active run on several nodes or over a link, and how they are connected."""
    known = {} if links is None else links.nodes
    plan = read_json(layout.plan)
    planned = typed.mappings(plan, "nodes") if isinstance(plan, dict) else []
    names = list(dict.fromkeys((*(typed.text(node, "name") for node in planned), *known)))
    if len(names) < 2 and not known:
        return
    now = time.time()
    for name in filter(None, names):
        link = known.get(name)
        if link is None:
            how = "no connection needed: it is this machine, or shares this folder"
        elif links is not None and links.is_fresh(now):
            how = reasons.link_word(link, now)
        else:
            how = reasons.unfollowed_node(link, now)
        yield f"  node {name}: {how}"


def _attempt(attempt: AttemptView, view: RunView) -> str:
    parts = [moment(attempt.started)]
    if attempt.world_size not in (None, view.world_size):
        size = f"{attempt.world_size} rank{'' if attempt.world_size == 1 else 's'}"
        if attempt.accumulation is not None and attempt.global_batch is not None:
            size += f" × accumulation {attempt.accumulation}, global batch {attempt.global_batch:,}"
        parts.append(size)
    if attempt.resume:
        parts.append(f"from {attempt.resume}")
    if attempt.ended is not None:
        parts.append(f"{attempt.outcome} after {duration(attempt.ended - attempt.started)}")
    exits = [f"rank {item.rank}: {item.signal or item.code}" for item in attempt.exits]
    if exits:
        parts.append(f"exits {', '.join(exits)}")
    return ", ".join(parts)
