"""Transfer of a run's copy of the user's code to a node, over its link, before the agent starts there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from torchdeck.contract.frames import Frame, FrameError, FrameReader
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.launching.code.send import CodeNotSentError, Progress, Sender
from torchdeck.launching.remote.link import NodeLink
from torchdeck.launching.remote.link_session import LinkLostError, RemoteRequestError
from torchdeck.runs.links import LinkState

LEAST_AT_ONCE, MOST_AT_ONCE = 1 << 17, 1 << 21
"""Bytes per request: the first keeps urgent messages fast on a slow link, the second keeps a fast one busy.
"""
QUICK = 0.2
"""Seconds for the answer to a request; after faster ones requests get larger."""
CALL_LIMIT = 120.0
"""Timeout in seconds for one answer: a slow link takes a while for a megabyte."""
AGAIN = 1.0
"""Seconds until an interrupted transfer is resumed; received data is not sent twice."""


class CodeSending:
    """Transfer to one node, in a thread of its own, for as long as it takes.

    Attributes:
        done: the node has the code.
        why: why it never will; empty otherwise.
        progress: progress of the transfer.
    """

    def __init__(self, layout: RunLayout, link: NodeLink) -> None:
        self.done = False
        self.why = ""
        self.progress = Progress(0, 0)
        self._layout = layout
        self._link = link
        self._at_once = LEAST_AT_ONCE
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"code for {link.node}", daemon=True)
        self._thread.start()

    def with_progress(self, state: LinkState) -> LinkState:
        """Return the state of its link, with the progress while code is being sent."""
        progress = self.progress
        if self.done or self.why or not progress.size:
            return state
        return replace(state, code_sent=progress.sent, code_size=progress.size)

    def close(self) -> None:
        """Cancel the transfer."""
        self._closed.set()

    def _keep(self) -> None:
        while not (self.done or self.why or self._closed.is_set()):
            if not self._link.wait_up(AGAIN):
                continue
            try:
                self._send()
            except LinkLostError:
                self._closed.wait(AGAIN)
            except (CodeNotSentError, RemoteRequestError, FrameError) as error:
                self.why = f"the code cannot be sent to {self._link.node}: {error}"
            except Exception as error:  # noqa: BLE001 - whatever it is, the start must not wait for it for ever
                self.why = f"the code cannot be sent to {self._link.node}: {error!r}"

    def _send(self) -> None:
        if self._link.state.shared:
            self.done = True  # the node sees the same copy
            return
        sender = Sender(self._layout, self._tell)
        frames, first = FrameReader(), True
        waiting = sender.begin()
        while not sender.over and not self._closed.is_set():
            answers = b""
            for body in self._batches(waiting):
                begun = time.monotonic()
                answers += self._link.call(LinkRequest.CODE, body, limit=CALL_LIMIT, first=first).body
                quick = time.monotonic() - begun < QUICK
                self._at_once = min(MOST_AT_ONCE, 2 * self._at_once) if quick else LEAST_AT_ONCE
                first = False
            arrived = list(frames.feed(answers))
            if not arrived and not sender.over:
                raise CodeNotSentError("the node did not answer")
            waiting = _answered(sender, arrived)
        self.done = sender.over

    def _batches(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces, several at a time."""
        batch = b""
        for piece in pieces:
            batch += piece
            if len(batch) >= self._at_once:
                yield batch
                batch = b""
        if batch:
            yield batch

    def _tell(self, progress: Progress) -> None:
        self.progress = progress


def _answered(sender: Sender, arrived: list[Frame]) -> Iterator[bytes]:
    for frame in arrived:
        yield from sender.handle(frame)
