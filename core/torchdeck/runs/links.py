"""State of the links to a run's nodes: links.json, which the controller replaces once a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.journal import LATEST
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout

CONNECTING = "connecting"
UP = "up"
LOST = "lost"
NEEDS_LOGIN = "needs_login"
"""A password or passphrase is needed, and there is no user to prompt."""
REFUSED = "refused"
"""The node's host key is not the known one, the node cannot be used, or it sent invalid data."""
STATES = (CONNECTING, UP, LOST, NEEDS_LOGIN, REFUSED)
LINKS_LATE = 5.0
"""Age in seconds at which links.json, written once a second, is taken for a dead controller's."""


@dataclass(frozen=True)
class LinkState:
    """One node's link, as seen by the controller. Times are unix seconds on the controller's clock."""

    node: str
    state: str = CONNECTING
    """One of `STATES`."""
    since: float = 0.0
    """Time at which this state began."""
    heard: float | None = None
    """Time of the last message from the node; None: never."""
    why: str = ""
    """Cause of the problem, as a sentence; empty while the link is up."""
    shared: bool = False
    """Whether the node sees the controller's run directory: nothing is mirrored."""
    held: str = ""
    """Files not mirrored because the disk here is nearly full: `logs`, or `logs and metrics`."""
    behind: int = 0
    """Bytes on the node that are not here yet, as last reported by the node."""
    clock_offset: float | None = None
    """Seconds by which the node's clock is ahead of the controller's."""
    clock_error: float | None = None
    """Error margin of the offset, in seconds."""
    agent_alive: bool | None = None
    """Last value reported by the node; None: not reported."""
    holder_alive: bool | None = None
    torchrun_alive: bool | None = None
    code_sent: int | None = None
    """Bytes of the run's code sent to the node; None while none is being sent."""
    code_size: int | None = None
    """Bytes of it that the node did not have."""

    @property
    def is_sent_code(self) -> bool:
        """Whether code is being sent to the node with known progress."""
        return self.state == UP and self.code_sent is not None and bool(self.code_size)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> LinkState | None:
        """Parse `value`; None if it is not a link state."""
        if not isinstance(value, Mapping) or not isinstance(value.get("node"), str):
            return None
        since = _time(value.get("since"))
        if value.get("state") not in STATES or since is None:
            return None
        return cls(
            value["node"],
            value["state"],
            since,
            heard=_time(value.get("heard")),
            why=_text(value.get("why")),
            shared=value.get("shared") is True,
            held=_text(value.get("held")),
            behind=_count(value.get("behind")) or 0,
            clock_offset=_time(value.get("clock_offset")),
            clock_error=_time(value.get("clock_error")),
            agent_alive=_truth(value.get("agent_alive")),
            holder_alive=_truth(value.get("holder_alive")),
            torchrun_alive=_truth(value.get("torchrun_alive")),
            code_sent=_count(value.get("code_sent")),
            code_size=_count(value.get("code_size")),
        )


@dataclass(frozen=True)
class Links:
    """Content of links.json."""

    time: float
    """Time of writing, unix seconds: an old file was written by a controller that is gone."""
    nodes: Mapping[str, LinkState]

    def is_fresh(self, now: float) -> bool:
        """Return whether the controller that wrote it was alive recently; `now` in unix seconds."""
        return now - self.time < LINKS_LATE

    def lacks_login(self, now: float) -> bool:
        """Return whether the controller is alive without a user to prompt for a node's login; `now` in unix
        seconds.
        """
        return self.is_fresh(now) and any(state.state == NEEDS_LOGIN for state in self.nodes.values())

    def sent_code(self, now: float) -> tuple[LinkState, ...]:
        """Return the nodes to which code is being sent; empty if it was written long before `now`."""
        return (
            tuple(state for state in self.nodes.values() if state.is_sent_code) if self.is_fresh(now) else ()
        )


def links_path(layout: RunLayout) -> Path:
    """Return its path (controller); a run on this machine alone has none."""
    return layout.root / "links.json"


def write_links(layout: RunLayout, states: Mapping[str, LinkState], now: float) -> None:
    """Replace the file; not synced, since it means nothing after a power cut. Raises OSError."""
    nodes = {name: state.to_json() for name, state in states.items()}
    write_json(links_path(layout), {"v": FORMAT_VERSION, "t": now, "nodes": nodes}, durable=False)


def read_links(layout: RunLayout) -> Links | None:
    """Read the file; None if it does not exist, or this version cannot read it."""
    value = read_json(links_path(layout))
    if not isinstance(value, Mapping) or value.get("v") != FORMAT_VERSION:
        return None
    written, nodes = _time(value.get("t")), value.get("nodes")
    if written is None or not isinstance(nodes, Mapping):
        return None
    states = {str(name): state for name, each in nodes.items() if (state := LinkState.from_json(each))}
    return Links(written, states)


def _time(value: Any) -> float | None:
    """Return seconds; None if the value is not a time."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < LATEST else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    """Return a number of bytes; None if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
