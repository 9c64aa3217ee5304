"""Evidence on one rank that makes no progress, as its node's agent collects it. Plain values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from torchdeck.contract.doctor.rank_heartbeat import GroupCounts
from torchdeck.contract.run_states import TextEnum
from torchdeck.telemetry.doctor.main_thread import is_users

MOST_FRAMES = 32
MOST_COLLECTIVES = 96
MOST_GROUPS = 64
TEXT_LIMIT = 300
DEAD = ("gone", "Z", "X")
"""States of a process that has ended."""
_FAULTHANDLER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9}) in (?P<function>.+)$')


class Kind(TextEnum):
    """Class of a verdict, as journals spell it."""

    WORKING = "working"
    """No hang: the rank that the others wait for is at work."""
    FROZEN = "frozen"
    """No hang: all ranks are stopped, or the whole machine was."""
    ABSENT = "absent"
    MISMATCH = "mismatch"
    ELSEWHERE = "elsewhere"
    NATIVE = "native"
    COLLECTIVE = "collective"
    STOPPED = "stopped"
    DATA = "data"
    DISK = "disk"
    DEAD = "dead"
    MACHINE = "machine"


class Frame(NamedTuple):
    """One frame of the main thread's stack."""

    file: str
    line: int
    function: str
    calls: bool = False
    """It is in a call; of a function in C, if it is the innermost frame."""


class Collective(NamedTuple):
    """One collective that the rank has enqueued."""

    group: str
    sequence: int
    operation: str
    """`gloo:all_reduce`."""
    shapes: str = ""
    """`[[4, 4]]`."""
    types: str = ""
    done: bool = False
    p2p: bool = False


class Group(NamedTuple):
    """A process group that the rank is in."""

    group: str
    ranks: tuple[int, ...]
    description: str = ""


class RankEvidence(NamedTuple):
    """All about one rank. Seconds are those that its agent was awake in."""

    rank: int
    pid: int | None = None
    state: str = ""
    """As in proc(5); `gone`: there is no process; `unreachable`: its node does not answer; empty: unknown."""
    ended: bool = False
    """It has exited."""
    still: float = 0.0
    limit: float = 0.0
    moved: bool = False
    """It has made progress since the examination began."""
    phase: str = ""
    step: int | None = None
    known: bool = False
    """It has written heartbeats."""
    beating: bool = False
    """It writes them still."""
    working: bool = False
    """It uses the processor or the disk, and does not repeat itself."""
    cpu: float = 0.0
    """Processors that it and its children used lately."""
    native: bool = False
    """The main thread has been in one and the same call of native code, using the processor."""
    blocked: bool = False
    """Its main thread was in state D whenever the agent looked during the examination."""
    kernel: str = ""
    """Function of the kernel in which the main thread waits, and the file if it is known."""
    workers: str = ""
    """Defects of its data loader's processes."""
    nccl: str = ""
    """Ranks that stand out by NCCL's own account, asked on this rank's node."""
    interfaces: str = ""
    """Faults of its node's network interfaces since the attempt began: `eth1: 120 receive errors`."""
    source: str = ""
    """Origin of the stack: `rank`, `faulthandler`, `py-spy`, or empty."""
    frames: tuple[Frame, ...] = ()
    """Main thread, innermost first; the middle of a deep stack is left out."""
    groups: tuple[Group, ...] = ()
    collectives: tuple[Collective, ...] = ()
    """The newest of each group, oldest first."""
    counts: tuple[GroupCounts, ...] = ()
    """Numbers in the last heartbeat of a process that is gone; empty for others."""


class Verdict(NamedTuple):
    """Why the ranks make no progress."""

    kind: Kind
    rank: int | None
    """The rank to blame first; None: none alone."""
    sentence: str
    ranks: tuple[int, ...] = ()
    """All that are to blame alike."""
    place: str = ""
    """`train.py:84 save_model`."""

    @property
    def is_hang(self) -> bool:
        return self.kind not in (Kind.WORKING, Kind.FROZEN)


def outlined(frames: Sequence[Frame], most: int = MOST_FRAMES) -> tuple[Frame, ...]:
    """Return at most `most` frames of a stack, innermost first, so that the user's own lines are among them.

    Three quarters are the innermost frames. The rest are the user's innermost frames below these, which a
    framework's frames may hide, or further innermost frames if there are none.
    """
    if len(frames) <= most:
        return tuple(frames)
    near = most - most // 4
    own = [frame for frame in frames[near:] if is_users(frame.file)][: most // 4]
    return (*frames[:near], *own) if own else tuple(frames[:most])


def from_answer(value: object) -> dict[str, Any]:
    """Return the fields of a `RankEvidence` that a rank's answer has; what is damaged is left out."""
    if not isinstance(value, dict):
        return {}
    threads = value.get("threads")
    threads = [item for item in threads if isinstance(item, dict)] if isinstance(threads, list) else []
    main: dict[str, Any] = next((thread for thread in threads if thread.get("main") is True), {})
    return {
        "source": "rank",
        "frames": outlined(_items(main.get("frames"), _frame)),
        "groups": tuple(_items(value.get("groups"), _group))[:MOST_GROUPS],
        "collectives": tuple(_items(value.get("collectives"), _collective))[-MOST_COLLECTIVES:],
    }


def from_faulthandler(text: str) -> tuple[Frame, ...]:
    """Return the main thread's frames in the last dump of `text`.

    faulthandler writes that thread last; of more than 100 it is left out, and a line of dots ends the dump.
    """
    dump = text.rsplit("Current thread ", 1)[0] if text.count("Current thread ") > 1 else ""
    last = text[len(dump) :]
    if "\n...\n" in last:
        return ()
    found: list[Frame] = []
    for line in last.rpartition("hread 0x")[2].splitlines():
        match = _FAULTHANDLER_FRAME.match(line)
        if match:
            found.append(
                Frame(match["file"][:TEXT_LIMIT], int(match["line"]), match["function"][:TEXT_LIMIT])
            )
    return outlined(found)


def from_py_spy(value: object, pid: int) -> tuple[Frame, ...]:
    """Return the main thread's frames in the output of `py-spy dump --json`."""
    for thread in value if isinstance(value, list) else []:
        if isinstance(thread, dict) and thread.get("os_thread_id") == pid:
            return outlined(_items(thread.get("frames"), _py_spy_frame))
    return ()


def _items(value: object, read: Any) -> list[Any]:
    found = []
    for item in value if isinstance(value, list) else []:
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError, AttributeError):
            found.append(read(item))
    return found


def _frame(item: dict[str, Any]) -> Frame:
    return Frame(
        _text(item["file"]), _whole(item["line"]), _text(item["function"]), item.get("calls") is True
    )


def _py_spy_frame(item: dict[str, Any]) -> Frame:
    return _frame({**item, "file": item["filename"], "function": item["name"]})


def _group(item: dict[str, Any]) -> Group:
    ranks = tuple(sorted({_whole(rank) for rank in item["ranks"][:65536]}))
    return Group(_text(item["group"]), ranks, _text(item["description"]))


def _collective(item: dict[str, Any]) -> Collective:
    return Collective(
        _text(item["group"]),
        _whole(item["sequence"]),
        _text(item["operation"]),
        _text(item["shapes"]),
        _text(item["types"]),
        item.get("done") is True,
        item.get("p2p") is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value[:TEXT_LIMIT]


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value
