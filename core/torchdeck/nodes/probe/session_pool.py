"""Pool of open probe sessions: one login and one Python per node serve several callers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial

from torchdeck.nodes.background import in_background
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.opening import LIMIT, Connect, open_probe_session
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.ssh.errors import SshError

AT_ONCE = 64


class SessionPool:
    """Replaces `open_probe_session`: closes nothing before `close`. Any thread may use it."""

    def __init__(self) -> None:
        self._free: dict[str, list[_Kept]] = {}
        self._coming: dict[str, Future[_Kept]] = {}
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def __call__(self, name: str, entry: NodeEntry, connect: Connect, limit: float) -> Iterator[ProbeSession]:
        """Open a session; it stays open for the next caller unless an error ends the block."""
        found = self._taken(name, entry) or _begun(name, entry, connect, limit)
        try:
            yield found.probe_session
        except BaseException:
            found.close()
            raise
        self._give_back(name, found)

    def begin(self, entries: Mapping[str, NodeEntry], connect: Connect, limit: float = LIMIT) -> None:
        """Begin a session with each node without waiting: the first caller gets it, or its error.

        `connect` should not prompt: if the user must be prompted, the first caller connects again, and
        prompts.
        """
        calls = [partial(_begun, name, entry, connect, limit) for name, entry in entries.items()]
        self._coming.update(zip(entries, in_background(calls, AT_ONCE, "talks"), strict=True))

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            self._closed = True
            kept = [each for some in self._free.values() for each in some]
            coming = list(self._coming.values())
            self._free.clear()
            self._coming.clear()
        for each in kept:
            each.close()
        for future in coming:
            if not future.cancel():
                future.add_done_callback(_close_unasked)

    def _taken(self, name: str, entry: NodeEntry) -> _Kept | None:
        with self._lock:
            coming = self._coming.pop(name, None)
        if coming is not None:
            begun = _unless_asking(coming)
            if begun is not None and begun.entry == entry:
                return begun
            if begun is not None:
                begun.close()
        with self._lock:
            free = self._free.get(name, [])
            found = next((each for each in free if each.entry == entry), None)
            if found is not None:
                free.remove(found)
            return found

    def _give_back(self, name: str, found: _Kept) -> None:
        found.probe_session.spent = 0.0
        with self._lock:
            if not self._closed:
                self._free.setdefault(name, []).append(found)
                return
        found.close()


class _Kept:
    """Pooled session and its connection."""

    def __init__(self, entry: NodeEntry, probe_session: ProbeSession, stack: ExitStack) -> None:
        self.entry = entry
        self.probe_session = probe_session
        self._stack = stack

    def close(self) -> None:
        with contextlib.suppress(SshError, OSError, EOFError):
            self._stack.close()


def _begun(name: str, entry: NodeEntry, connect: Connect, limit: float) -> _Kept:
    stack = ExitStack()
    return _Kept(entry, stack.enter_context(open_probe_session(name, entry, connect, limit)), stack)


def _unless_asking(coming: Future[_Kept]) -> _Kept | None:
    """Return the session being opened; None if the user must be prompted first."""
    try:
        return coming.result()
    except SshError as error:
        if error.asking_helps:
            return None
        raise


def _close_unasked(coming: Future[_Kept]) -> None:
    """Close a session that has no more callers."""
    if coming.exception() is None:
        coming.result().close()
