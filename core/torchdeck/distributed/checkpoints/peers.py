"""Ranks that act together and all learn whether every one of them succeeded."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, Manifest, parse_manifest
from torchdeck.distributed.group import json_collectives
from torchdeck.distributed.group.phases import Phases, timed_out
from torchdeck.distributed.group.roll_call import MissingCallError, Seen, roll_call

T = TypeVar("T")
_LEAVING = 5.0
"""Seconds that a rank waits for the others to be through with a group, as they soon are."""
_Outcome = tuple[bool, Any]
"""(True, result), or (False, reason of the failure)."""


class Peers:
    """All ranks of the run.

    Two or more communicate over a separate gloo group. A checkpoint's files may take longer to write than the
    training's timeout allows, and its bookkeeping must not use the accelerator.

    Args:
        rank: this rank.
        world_size: number of ranks.
        timeout: seconds that a rank waits for the others in each phase.
        seen: says which ranks can be seen not to make the same call.
    """

    def __init__(self, rank: int, world_size: int, timeout: float, seen: Seen = dict) -> None:
        self.rank = rank
        self.world_size = world_size
        self._timeout = timeout
        self._seen = seen
        self._group: dist.ProcessGroup | None = None
        self._phases: Phases | None = None

    def call(self, what: str, detail: str = "", *, timeout: float | None = None) -> None:
        """Return once every rank has made this call, before anything is exchanged.

        Args:
            what: the call as users write it: "save".
            detail: what must be the same on every rank: "step 5".
            timeout: seconds to wait for the others. Default: that of a phase.

        Raises:
            CheckpointError: on every rank that called: a rank did not, or not in time; the message names it.
        """
        if self.world_size == 1:
            return
        self._check_joined()
        try:
            roll_call(what, detail, timeout=self._timeout if timeout is None else timeout, seen=self._seen)
        except MissingCallError as error:
            raise CheckpointError(str(error)) from error

    @property
    def group(self) -> dist.ProcessGroup | None:
        """Return the gloo group; None for a single rank. Created on first use, which must be on all ranks at
        once.

        Raises:
            CheckpointError: torch.distributed is not initialised for this world size, or a rank is gone.
        """
        if self.world_size == 1:
            return None
        if self._group is None:
            self._group = self._make_group()
        return self._group

    def join(self) -> None:
        """Create the group in the training thread: creating one is a collective of all of the rank's groups.

        Raises:
            CheckpointError: as `group`.
        """
        _ = self.group

    def leave(self) -> None:
        """End the group once all ranks are through with it; all call this. Its sockets are closed."""
        group, self._group, self._phases = self._group, None, None
        if group is None:
            return
        with suppress(MissingCallError):  # a rank that is late finds closed sockets, and says so
            roll_call("the end of a checkpoint's exchange", timeout=_LEAVING)
        with suppress(RuntimeError, ValueError):  # the default group may have been left
            dist.destroy_process_group(group)

    def _check_joined(self) -> None:
        if not dist.is_initialized() or dist.get_world_size() != self.world_size:
            raise CheckpointError(
                f"checkpoints of {self.world_size} ranks need torch.distributed initialised for as many"
            )

    def _make_group(self) -> dist.ProcessGroup:
        self._check_joined()
        try:
            # the training's group detects a lost rank at once; creating one waits until its timeout
            dist.barrier()
            timeout = dt.timedelta(seconds=self._timeout)
            group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=timeout)
            self._phases = Phases(group, self._timeout)
            return group
        except RuntimeError as error:
            raise CheckpointError(
                f"joining the other ranks for a checkpoint failed: {sentence(error)}"
            ) from error

    def together(self, what: str, action: Callable[[], Any], read: Callable[[Any], T]) -> list[T]:
        """Return each rank's result of `action`, by rank; every rank waits until all have theirs.

        Args:
            what: names the step in messages, as in "hashing the files".
            action: this rank's part, whose result is JSON; must not communicate with other ranks.
            read: converts a rank's message, including this one's, to a value. Raises ValueError if it is
                wrong.

        Raises:
            CheckpointError: `action` failed on at least one rank (raised on every rank, with the same
                sentence), a rank is gone, or `read` raised.
        """
        values = self._gathered(what, _attempt(action))
        return [_read(what, read, value, rank) for rank, value in enumerate(values)]

    def first(self, what: str, action: Callable[[], Any], read: Callable[[Any], T], rank: int = 0) -> T:
        """Return the result of `action`, which runs on `rank` alone. Raises as `together`."""
        values = self._gathered(what, _attempt(action if self.rank == rank else lambda: None))
        return _read(what, read, values[rank], rank)

    def step(self, what: str, action: Callable[[], T]) -> T:
        """Return this rank's result of `action`, once all have theirs; none is sent. Raises as `together`."""
        results: list[T] = []
        self.together(what, lambda: results.append(action()), nothing)
        return results[0]

    def reduce_scatter(
        self, what: str, action: Callable[[], Any], reduce: Callable[[list[Any]], Sequence[Any]]
    ) -> Any:
        """Return rank 0's reply to this rank, which is computed from the results of all.

        Args:
            what: as in `together`.
            action: this rank's part, whose result is JSON.
            reduce: results by rank, unchecked -> replies by rank, in JSON; called on rank 0 alone.

        Raises:
            CheckpointError: on every rank: `action` failed on one, `reduce` failed, or a rank is gone.
        """
        outcome, group = _attempt(action), self.group
        try:
            self._phase_done()
            replies = self._replies(what, outcome, reduce)
            reply = replies[0] if group is None else json_collectives.scatter(replies, group)
        except RuntimeError as error:
            raise self._lost(what, error) from error
        good, value = _outcome(what, reply, 0)
        if not good:
            raise CheckpointError(str(value))
        return value

    def _replies(
        self, what: str, outcome: _Outcome, reduce: Callable[[list[Any]], Sequence[Any]]
    ) -> list[Any]:
        """Return, on rank 0, the reply for each rank; if anything failed, the reason."""
        try:
            results = [outcome] if self.group is None else json_collectives.gather(outcome, self.group)
            if self.rank:
                return []
            values = self._good(what, results)
        except json_collectives.PeerMessageError as error:
            return [(False, f"{what} failed: {error}")] * self.world_size
        except CheckpointError as error:
            return [(False, str(error))] * self.world_size
        good, found = _attempt(lambda: list(reduce(values)))
        if not good:
            return [(False, f"{what} failed: {found}")] * self.world_size
        return [(True, reply) for reply in found]

    def _gathered(self, what: str, outcome: _Outcome) -> list[Any]:
        if self.group is None:
            return self._good(what, [outcome])
        try:
            self._phase_done()
            return self._good(what, json_collectives.all_gather(outcome, self.group))
        except RuntimeError as error:
            raise self._lost(what, error) from error

    def _phase_done(self) -> None:
        if self._phases is not None:
            self._phases.done()

    def _lost(self, what: str, error: RuntimeError) -> CheckpointError:
        if isinstance(error, json_collectives.PeerMessageError):
            return CheckpointError(f"{what} failed: {error}")
        late = self._phases.why_failed(error) if self._phases is not None else ""
        return CheckpointError(f"{what} failed: {late or lost(error)}")

    def _good(self, what: str, outcomes: Sequence[Any]) -> list[Any]:
        found = [_outcome(what, value, rank) for rank, value in enumerate(outcomes)]
        failures = {rank: str(why) for rank, (good, why) in enumerate(found) if not good}
        if failures:
            raise CheckpointError(f"{what} failed: {_combine(failures, self.world_size)}")
        return [value for _, value in found]


def _attempt(action: Callable[[], Any]) -> _Outcome:
    try:
        return True, action()
    except Exception as error:  # noqa: BLE001 - whatever it was, the other ranks wait to hear of it
        return False, sentence(error)


def _outcome(what: str, value: Any, rank: int) -> _Outcome:
    pair = value if isinstance(value, (list, tuple)) and len(value) == 2 else (None, None)
    if not isinstance(pair[0], bool) or not (pair[0] or isinstance(pair[1], str)):
        raise CheckpointError(f"{what} failed: what rank {rank} sent is no outcome of it")
    return pair[0], pair[1]


def _read(what: str, read: Callable[[Any], T], value: Any, rank: int) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise CheckpointError(f"{what} failed: what rank {rank} sent is refused: {error}") from error


def lost(error: RuntimeError) -> str:
    """Return why a rank could not be reached, as part of a sentence: it is late, or gone."""
    if timed_out(error):
        return f"another rank did not answer in time ({sentence(error)})"
    return f"another rank has ended, or left the process group ({sentence(error)})"


def sentence(error: BaseException) -> str:
    """Return an exception as part of one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, pickle.UnpicklingError):
        return refusal(error)
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if isinstance(error, CheckpointError) else f"{type(error).__name__}: {text}"


def _combine(failures: dict[int, str], world_size: int) -> str:
    reasons = set(failures.values())
    if len(reasons) == 1 and len(failures) == world_size:
        return reasons.pop()
    return "; ".join(f"rank {rank}: {why}" for rank, why in sorted(failures.items()))


# Validators of messages between ranks about checkpoints: each raises ValueError.

_LONGEST_TEXT = 1 << 16
_LARGEST = 1 << 63


def nothing(value: Any) -> None:
    if value is not None:
        raise ValueError(f"{_shown(value)} came, and nothing was asked for")


def truth(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def count(value: Any) -> int:
    """Return a whole number of at least 0 that fits into 64 bits."""
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{_shown(value)} is no whole number from 0")
    return value


def number(value: Any) -> float:
    """Return a finite number."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{_shown(value)} is no number")
    return float(value)


def text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"{_shown(value)} is no text of at most {_LONGEST_TEXT} characters")
    return value


def file_name(value: Any) -> str:
    """Return a name in a folder, not a path."""
    name = text(value)
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{_shown(name)} is no file name")
    return name


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a validator that accepts null, or what `read` accepts."""
    return lambda value: None if value is None else read(value)


def listed(read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """Return a validator of a list of what `read` accepts."""

    def items(value: Any) -> list[T]:
        if type(value) is not list:
            raise ValueError(f"{_shown(value)} is no list")
        return [read(item) for item in value]

    return items


def by_name(read: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    """Return a validator of an object of file names, and what `read` accepts for each."""

    def entries(value: Any) -> dict[str, T]:
        if type(value) is not dict:
            raise ValueError(f"{_shown(value)} is no object")
        return {file_name(name): read(item) for name, item in value.items()}

    return entries


def manifest_of(folder: Path) -> Callable[[Any], Manifest]:
    """Return a validator of a rendered manifest of a checkpoint in `folder`. It raises CheckpointError if
    damaged.
    """
    return lambda value: parse_manifest(_whole_text(value).encode(), folder / MANIFEST_NAME)


def _whole_text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is no text")
    return value


def _shown(value: Any) -> str:
    return repr(value)[:60]


_ASKED = re.compile(r"GLOBAL ([\w.]+)")


def refusal(error: BaseException) -> str:
    """Return `error` of `torch.load(weights_only=True)` as part of a sentence.

    torch's own text advises reading the file without `weights_only`, which would execute its content.
    """
    text = str(error).strip()
    if isinstance(error, pickle.UnpicklingError):
        asked = _ASKED.search(text)
        if asked is not None:
            return f"it is refused: it asks for {asked.group(1)}, which tensors never need"
        return "it is damaged, or not a file of tensors"
    return (text.splitlines() or [type(error).__name__])[0]
