"""Readable timeline of a run's journals: one line per event, attempts as headings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from torchdeck.contract.journal import Event, JournalReader, NodeJournalReader, reader_of_node
from torchdeck.contract.layout import NodeLayout, RunLayout
from torchdeck.contract.run_states import StopKind
from torchdeck.quantities import brief, duration, moment, size
from torchdeck.runs import reasons
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.seen import hang_of

Kind = Literal["state", "attempt", "checkpoint", "request", "problem", "detail"]
CONTROLLER = "controller"


@dataclass(frozen=True)
class Happening:
    """One line of the timeline."""

    time: float
    """Seconds since the epoch, on the writer's clock."""
    who: str
    """`controller`, or the node's name."""
    kind: Kind
    text: str
    attempt: int
    """Attempt during which it happened; 0 before the first."""
    event: str
    """Event name in the journal."""
    details: tuple[tuple[str, str], ...] = ()
    """Other fields of the journal event."""


class TimelineReader:
    """Follows the journals of a run; each poll reads what was appended."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._journals: dict[str, JournalReader] = {}
        self._deliveries: dict[str, JournalReader] = {}
        self._events: list[tuple[str, Event]] = []

    def refresh(self) -> tuple[Happening, ...] | None:
        """Return the whole current timeline; None if nothing is new.

        Raises:
            NewerFormatError: the controller's journal is from a newer Torchdeck.
            OSError: that journal cannot be read.
        """
        if CONTROLLER not in self._journals:
            self._journals[CONTROLLER] = JournalReader(self._layout.journal)
            self._deliveries[CONTROLLER] = NodeJournalReader(self._layout.alerts)
        for path in sorted(self._layout.nodes.glob("*/journal.jsonl")):
            if path.parent.name not in self._journals:
                node = NodeLayout(path.parent)
                self._journals[path.parent.name] = reader_of_node(node)
                self._deliveries[path.parent.name] = NodeJournalReader(node.alerts)
        readers = (*self._journals.items(), *self._deliveries.items())
        new = [(who, event) for who, journal in readers for event in journal.read_new()]
        if not new and self._events:
            return None
        self._events += new
        return timeline(self._events)


def timeline(events: Iterable[tuple[str, Event]]) -> tuple[Happening, ...]:
    """Return the events in order of time, each with the attempt it belongs to.

    Args:
        events: writer (`controller`, or a node), and event.
    """
    attempt = 0
    found = []
    events = list(events)
    places = _places(events)
    for who, event in sorted(events, key=lambda item: item[1].time):
        named = typed.whole(event.fields, "attempt")
        if event.name == "attempt_started":
            attempt = named or attempt + 1
        kind, text = _say(event)
        if event.name == "attempt_ended":
            text = _attempt_ended(event.fields, places)
        details = tuple((name, _shown(value)) for name, value in event.fields.items())
        found.append(Happening(event.time, who, kind, text, named or attempt, event.name, details))
    return tuple(found)


def _places(events: Iterable[tuple[str, Event]]) -> Mapping[tuple[int | None, int | None], str]:
    """Return (attempt, rank) → its node, in a run of several."""
    exits = [(who, event.fields) for who, event in events if event.name == "rank_exited"]
    nodes = {who for who, event in events if event.name == "agent_started"}
    if len(nodes) < 2:
        return {}
    return {(typed.whole(said, "attempt"), typed.whole(said, "rank")): who for who, said in exits}


def _say(event: Event) -> tuple[Kind, str]:
    known = _SENTENCES.get(event.name)
    if known is None:
        return "detail", event.name.replace("_", " ")
    kind, sentence = known
    return kind, sentence(event.fields)


def _shown(value: Any, limit: int = 2000) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _constant(text: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda _fields: text


def _created(fields: Mapping[str, Any]) -> str:
    ranks = typed.whole(fields, "world_size")
    size_ = "" if ranks is None else f" for {ranks} rank{'' if ranks == 1 else 's'}"
    what = f"created{size_}: {typed.text(fields, 'kind')} {typed.text(fields, 'target')}".rstrip(": ")
    return "; ".join((what, *typed.absent(fields)))


def _request(fields: Mapping[str, Any]) -> str:
    asked = {"stop_now": "stop now"}.get(typed.text(fields, "kind"), typed.text(fields, "kind"))
    origin = typed.text(fields, "origin")
    return f"{asked} asked for by the {origin}" if origin else f"{asked} taken by the agent"


def _attempt_started(fields: Mapping[str, Any]) -> str:
    reason = {"first": "", "resume": ", resumed", "failure": ", after a failure"}
    said = typed.text(fields, "reason", "first")
    step = typed.whole(fields, "resume_step")
    ranks = typed.whole(fields, "world_size")
    where = "" if step is None else f", from the checkpoint of step {step:,}"
    how_many = "" if ranks is None else f" with {ranks} rank{'' if ranks == 1 else 's'}"
    number = typed.whole(fields, "attempt") or 1
    scratch = typed.text(fields, "from_scratch")
    begins = f", from the beginning: {scratch}" if scratch else ""
    return f"attempt {number} started{how_many}{reason.get(said, f', {said}')}{where}{begins}"


def _attempt_ended(
    fields: Mapping[str, Any], places: Mapping[tuple[int | None, int | None], str] | None = None
) -> str:
    first = typed.failure(fields.get("first_failure"))
    if first is not None and places:
        node = places.get((typed.whole(fields, "attempt"), first.rank), "")
        first = dataclasses.replace(first, node=node)
    why = "" if first is None else f": {reasons.failure(first)}"
    if first is not None and first.message and first.message.splitlines()[0] not in why:
        why += f", {first.message.splitlines()[0]}"
    return f"attempt {typed.whole(fields, 'attempt') or ''} {typed.text(fields, 'outcome', 'ended')}{why}"


def _rank_exited(fields: Mapping[str, Any]) -> str:
    signal = typed.signal_name(fields)
    how = f"was ended by {signal}" if signal else f"exited with code {typed.whole(fields, 'code')}"
    return f"rank {typed.whole(fields, 'rank')} {how}"


def _checkpoint(fields: Mapping[str, Any]) -> str:
    step, kind = typed.whole(fields, "step"), typed.text(fields, "kind")
    named = f"checkpoint {PurePath(typed.text(fields, 'path')).name}" if kind else "checkpoint"
    if step is not None or not kind:
        named += f" of {'about ' * (fields.get('about') is True)}step {step or 0:,}"
    parts = [f"{named} is complete"]
    bytes_, seconds = typed.number(fields, "size"), typed.number(fields, "seconds")
    parts += [] if bytes_ is None else [size(bytes_)]
    parts += [] if not seconds else [f"saved in {brief(seconds)}"]
    return ", ".join(parts)


def _stopping(fields: Mapping[str, Any]) -> str:
    why = typed.text(fields, "why", "user")
    how = "now" if typed.text(fields, "kind") == StopKind.NOW else "after the step, with a checkpoint"
    return f"stopping {how}: {reasons.STOP_REASONS.get(why, why)}"


def _restarting(fields: Mapping[str, Any]) -> str:
    delay = typed.number(fields, "delay")
    again = "starts again" if delay is None else f"starts again in {duration(delay)}"
    without = typed.given_up(fields)
    return f"{again} without {without}" if without else again


def _left_out(fields: Mapping[str, Any]) -> str:
    return f"begins without {typed.given_up(fields)}"


def _hang(fields: Mapping[str, Any]) -> str:
    return reasons.hang(hang_of(fields, typed.whole(fields, "attempt") or 0))


def _finished(fields: Mapping[str, Any]) -> str:
    why = typed.text(fields, "why")
    return f"{typed.text(fields, 'state').lower()}{f': {why}' if why else ''}"


def _silent(fields: Mapping[str, Any], *, given_up: bool = False) -> str:
    node, seconds = typed.text(fields, "node"), typed.number(fields, "seconds") or 0.0
    return reasons.silent(node, seconds, typed.number(fields, "grace"), given_up=given_up)


def _silent_for_too_long(fields: Mapping[str, Any]) -> str:
    return _silent(fields, given_up=True)


def _expected_end(fields: Mapping[str, Any]) -> str:
    return f"expected to end at {moment(typed.moment(fields, 'end'))}"


def _disk_low(fields: Mapping[str, Any]) -> str:
    free, needed = typed.number(fields, "free") or 0, typed.number(fields, "needed") or 0
    if fields.get("inodes") is True:
        return f"the disk of {typed.text(fields, 'path')} has only {free:,.0f} inodes left"
    return f"the disk of {typed.text(fields, 'path')} has {size(free)} free, and {size(needed)} are asked for"


_SENTENCES: Mapping[str, tuple[Kind, Callable[[Mapping[str, Any]], str]]] = {
    "created": ("state", _created),
    "controller_started": ("detail", _constant("controller started")),
    "controller_ended": ("detail", _constant("controller ended")),
    "superseded": ("detail", _constant("another controller took over")),
    "resumed": ("state", lambda fields: f"resumed by the {typed.text(fields, 'origin', 'user')}"),
    "request": ("request", _request),
    "transport_failed": (
        "problem",
        lambda fields: f"node {typed.text(fields, 'node')} is not available: {typed.text(fields, 'why')}",
    ),
    "deserted": (
        "problem",
        lambda fields: f"no process of the run is alive on node {typed.text(fields, 'node')} any more",
    ),
    "fenced": (
        "detail",
        lambda fields: f"no process of the lost run is alive on node {typed.text(fields, 'node')}",
    ),
    "node_silent": ("problem", _silent),
    "node_lost": ("problem", _silent_for_too_long),
    "node_back": (
        "state",
        lambda fields: (
            f"node {typed.text(fields, 'node')} answers the others again after "
            f"{typed.number(fields, 'seconds') or 0:.0f} s"
        ),
    ),
    "token_asked": ("problem", lambda fields: reasons.untold(typed.texts(fields, "nodes"))),
    "token_settled": ("detail", lambda fields: f"the gang's token: {typed.text(fields, 'how')}"),
    "agent_started": (
        "detail",
        lambda fields: "agent started" + (" and took over" if fields.get("adopted") is True else ""),
    ),
    "queued": ("state", lambda fields: f"queued: waits for {reasons.held_by(typed.device_holders(fields))}"),
    "refused": ("problem", lambda fields: f"refused: {reasons.held_by(typed.device_holders(fields))}"),
    "leased": ("detail", lambda fields: f"has {', '.join(typed.texts(fields, 'devices')) or 'its devices'}"),
    "environment_ready": (
        "detail",
        lambda fields: (
            f"uses environment {typed.text(fields, 'key')}, made from {typed.text(fields, 'source')}"
        ),
    ),
    "attempt_started": ("attempt", _attempt_started),
    "running": ("state", _constant("all ranks are up")),
    "stopping": ("state", _stopping),
    "restarting": ("state", _restarting),
    "left_out": ("problem", _left_out),
    "rank_exited": ("detail", _rank_exited),
    "hang": ("problem", _hang),
    "examined": ("detail", lambda fields: f"stacks written: {typed.text(fields, 'detail')}"),
    "hang_over": ("detail", lambda fields: f"rank {typed.whole(fields, 'rank')} continues again"),
    "straggler": ("problem", lambda fields: typed.text(fields, "detail")),
    "straggler_over": (
        "detail",
        lambda fields: (
            "the others no longer wait for rank " + ", ".join(map(str, typed.wholes(fields, "ranks")))
        ),
    ),
    "disk_low": ("problem", _disk_low),
    "attempt_ended": ("state", _attempt_ended),
    "checkpoint": ("checkpoint", _checkpoint),
    "checkpoint_gone": (
        "detail",
        lambda fields: f"checkpoint {PurePath(typed.text(fields, 'path')).name} was deleted by the program",
    ),
    "checkpoint_damaged": (
        "problem",
        lambda fields: reasons.damaged(typed.text(fields, "path"), typed.text(fields, "why")),
    ),
    "alert": ("detail", lambda fields: f"alert: {typed.text(fields, 'title')}"),
    "alert_sent": ("detail", lambda fields: f"alert sent to {typed.text(fields, 'target')}"),
    "alert_failed": (
        "problem",
        lambda fields: f"alert to {typed.text(fields, 'target')} not delivered: {typed.text(fields, 'why')}",
    ),
    "expected_end": ("detail", _expected_end),
    "agent_failed": (
        "problem",
        lambda fields: f"the agent ended by an error of its own: {typed.text(fields, 'error')}",
    ),
    "agent_killed": (
        "problem",
        lambda fields: (
            f"the agent{' and its shim' if fields.get('shim') is True else ''} on node "
            f"{typed.text(fields, 'node')} gave no sign of life for "
            f"{typed.number(fields, 'seconds') or 0:.0f} s and kept the run from being stopped: ended, so "
            "that another agent is started"
        ),
    ),
    "agent_paused": (
        "problem",
        lambda fields: (
            f"the agent did not run for {typed.number(fields, 'seconds') or 0:.0f} s (it was stopped, or the "
            "machine was suspended or very busy); limits do not count this time"
        ),
    ),
    "numbers_left_out": (
        "problem",
        lambda fields: reasons.numbers_left_out(typed.wholes(fields, "ranks")),
    ),
    "strangers": ("problem", reasons.strangers),
    "signalled": (
        "detail",
        lambda fields: (
            f"{typed.text(fields, 'signal')} sent to {typed.whole(fields, 'count') or 0} processes"
        ),
    ),
    **dict.fromkeys(("finished", "lost"), ("state", _finished)),
}
