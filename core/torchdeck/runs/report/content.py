"""Content of a report, read from run directories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import duration, moment
from torchdeck.runs.audit.audit import audit_run
from torchdeck.runs.folders.git_state import read_git_state
from torchdeck.runs.folders.origin import code_sentence, frozen_run_file
from torchdeck.runs.goodput.reading import read_goodput
from torchdeck.runs.goodput.texts import goodput_lines
from torchdeck.runs.replay import typed
from torchdeck.runs.report.chart import Line, Point
from torchdeck.runs.summary import next_lines, summary_lines
from torchdeck.runs.table.row import Row
from torchdeck.runs.training_progress import roles_of_run
from torchdeck.runs.view import RunView
from torchdeck.trainers.metric_roles import ROLES

if TYPE_CHECKING:
    from torchdeck.metrics import RunMetrics

MOST_RUNS = 50
"""Maximum number of runs in one report."""
MOST_CHARTS = 24
_FEW = 1000
"""Rows that are drawn one by one."""
_COLUMNS = 400
"""Columns of a line of more rows."""


class RunContent(NamedTuple):
    """One run in a report."""

    label: str
    id: str
    state: str
    why: str
    verdict: tuple[str, ...]
    """Lines on the result: failure with its traceback, samples, goodput."""
    facts: tuple[tuple[str, str], ...]
    """Names and values: program, ranks, times, command, code."""
    configuration: str
    """Run file with its overrides."""
    tags: tuple[str, ...]
    note: str


class Plot(NamedTuple):
    """One chart; `colours` has the number of the run of each line."""

    title: str
    lines: tuple[Line, ...]
    colours: tuple[int, ...]


class Report(NamedTuple):
    """Whole report."""

    title: str
    made: float
    """Unix seconds."""
    runs: tuple[RunContent, ...]
    plots: tuple[Plot, ...]
    differences: tuple[tuple[str, ...], ...]
    """Rows of settings that not all runs have: key, and the value in each run; none for a single run."""


class ReportError(Refusal):
    """A report cannot be made of these runs."""

    is_usage = True


def read_report(rows: Sequence[Row], progress: Callable[[str], object] = lambda _: None) -> Report:
    """Read the content of a report about these runs.

    Raises:
        ReportError: there are none, too many, or one cannot be read.
    """
    if not 0 < len(rows) <= MOST_RUNS:
        raise ReportError(f"a report is about 1 to {MOST_RUNS} runs", fix=f"{len(rows):,} are chosen")
    runs = []
    for row in rows:
        progress(f"reading {row.label}")
        runs.append(_run(row))
    title = rows[0].label if len(rows) == 1 else f"{len(rows)} runs of {rows[0].name}"
    return Report(title, time.time(), tuple(runs), tuple(_plots(rows, progress)), tuple(_differences(rows)))


def _run(row: Row) -> RunContent:
    view, layout = row.entry.view, row.entry.layout
    if view is None:
        raise ReportError(f"run {row.entry.id} cannot be read", row.entry.why)
    text = ""
    with suppress(OSError, ValueError):
        text = frozen_run_file(layout).text
    return RunContent(
        row.label,
        view.id,
        view.state_word,
        view.why,
        tuple(_verdict(layout, view)),
        tuple((name, value) for name, value in _facts(layout, view) if value),
        text.strip(),
        row.note.tags,
        row.note.text,
    )


def _verdict(layout: RunLayout, view: RunView) -> Iterator[str]:
    audit = None
    with suppress(OSError, NewerFormatError):
        audit = audit_run(layout, view)
    commands = {f"  {line}" for line in next_lines(view)}
    lines = summary_lines(view, str(layout.root), audit)[1:]
    yield from (
        line.removeprefix("  ")
        for line in lines
        if line not in commands and line.strip() != view.why and not line.startswith("  directory: ")
    )
    with suppress(OSError):
        found = read_goodput(layout, view)
        yield from () if found is None else goodput_lines(found)


def _facts(layout: RunLayout, view: RunView) -> Iterator[tuple[str, str]]:
    plan = read_json(layout.plan)
    nodes = typed.mappings(plan, "nodes") if isinstance(plan, dict) else []
    ended = view.ended or view.followed_until
    took = "" if view.started is None or ended is None else duration(ended - view.started)
    yield "Program", f"{view.kind} {view.target}".strip()
    yield "Ranks", "" if view.world_size is None else f"{view.world_size:,}"
    yield "Strategy", view.strategy
    yield "Nodes", ", ".join(filter(None, (typed.text(node, "name") for node in nodes)))
    yield "Started", moment(view.started)
    yield "Ended", moment(view.ended)
    yield "Took", took
    yield "Attempts", f"{len(view.attempts):,}" if len(view.attempts) > 1 else ""
    yield "Overrides", " ".join(view.overrides)
    yield "Code", code_sentence(plan)
    state = read_git_state(layout)
    yield "Git", "" if state is None else state.sentence


def _plots(rows: Sequence[Row], progress: Callable[[str], object]) -> Iterator[Plot]:
    from torchdeck.metrics import RunMetrics

    known = []
    for row in rows:
        progress(f"reading the metrics of {row.label}")
        metrics = RunMetrics(row.entry.layout.root)
        with suppress(OSError, NewerFormatError):
            metrics.refresh()
        known.append((metrics, roles_of_run(row.entry.layout)))
    titles: dict[str, dict[int, str]] = {}
    """Title → number of a run → its metric: runs that call the same role otherwise share a plot."""
    for number, (metrics, roles) in enumerate(known):
        names = metrics.names()
        for name in names:
            role = roles.role_of(name)
            title = role if role is not None and roles.choose(role, names) == name else name
            titles.setdefault(title, {})[number] = name
    for title in sorted(titles, key=_order)[:MOST_CHARTS]:
        lines = {}
        for number, name in titles[title].items():
            with suppress(OSError):
                lines[number] = Line(rows[number].label, _points(known[number][0], name))
        if lines:
            yield Plot(title, tuple(lines.values()), tuple(lines))


def _order(title: str) -> tuple[int, str]:
    return (ROLES.index(title) if title in ROLES else len(ROLES), title)


def _points(metrics: RunMetrics, name: str) -> tuple[Point, ...]:
    """Return all rows if there are few, else the minimum and maximum of each column of the chart."""
    rank = metrics.ranks(name)[0]
    if sum(segment.rows for segment, _ in metrics.parts(name, rank)) <= _FEW:
        series = metrics.series(name, rank, effective=True)
        return tuple(zip(map(float, series.steps.tolist()), series.values.tolist(), strict=True))
    extent = metrics.extent(name, rank)
    if extent is None:
        return ()
    window = metrics.window(name, rank, *extent, _COLUMNS, effective=True)
    middles = ((window.edges[:-1] + window.edges[1:]) / 2).tolist()
    points: list[Point] = []
    ends = zip(middles, window.low.tolist(), window.high.tolist(), window.counts.tolist(), strict=True)
    for x, low, high, count in ends:
        if count:
            points += [(x, low)] if low == high or low != low else [(x, low), (x, high)]
    return tuple(points)


def _differences(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    if len(rows) < 2:
        return
    keys = dict.fromkeys(key for row in rows for key in row.entry.settings)
    for key in keys:
        values = [row.entry.settings.get(key, "–") for row in rows]
        if len(set(values)) > 1:
            yield (key, *values)
