"""The desktop's end of a code transfer: see `agent.snapshots.receive` for the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchdeck.agent.snapshots.folder import read_manifest
from torchdeck.agent.snapshots.manifest import Blob, Manifest
from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.file_names import name_of
from torchdeck.contract.frames import Frame, encode
from torchdeck.contract.layout import RunLayout

PART = 1 << 17
"""Bytes of content per frame: the most that a more urgent frame waits for."""
LIST_PART = 1 << 20


class CodeNotSentError(Exception):
    """A node did not accept the code; the message gives the reason."""


@dataclass(frozen=True)
class Progress:
    """Progress of a transfer, in bytes of contents that the node did not have."""

    sent: int
    size: int


class Sender:
    """Sends a run's copy of the code to another node.

    Frames are created lazily, so that a slow link does not accumulate them in memory.

    Attributes:
        over: the node has the code.

    Raises, in all methods:
        CodeNotSentError: the node refuses, or the run's own copy is missing.
    """

    def __init__(self, layout: RunLayout, on_progress: Callable[[Progress], None] = lambda _: None) -> None:
        manifest = read_manifest(layout)
        if manifest is None or not layout.code.is_dir():
            raise CodeNotSentError(f"{layout.code} does not exist: the run has no copy of the code to send")
        self.over = False
        self._layout = layout
        self._manifest = manifest
        self._places = _places(manifest, layout.code)
        self._needed: list[tuple[str, int]] = []
        self._progress = on_progress

    def begin(self) -> Iterator[bytes]:
        """Yield the first frames, also after a reconnect: the other end knows its progress."""
        self._needed = []
        listed = self._manifest.to_bytes()
        for at in range(0, len(listed), LIST_PART):
            yield encode("code_list", listed[at : at + LIST_PART], run=self._layout.root.name, of=len(listed))

    def handle(self, frame: Frame) -> Iterator[bytes]:
        """Handle a frame from the node; yield the frames to send to it."""
        if frame.kind == "code_refused":
            raise CodeNotSentError(frame.text("why"))
        if frame.kind == "code_done":
            if frame.text("tree") != self._manifest.tree_hash:
                raise CodeNotSentError("the node made another copy of the code than it was sent")
            self.over = True
        elif frame.kind == "code_needed":
            self._needed += self._read(frame.body)
            if not frame.head.get("more"):
                needed, self._needed = self._needed, []
                yield from self._contents(needed)
                yield encode("code_end")
        else:
            raise CodeNotSentError(f"the node sent {frame.kind!r}, which is no part of a transfer of code")

    def _read(self, body: bytes) -> Iterator[tuple[str, int]]:
        try:
            for key, arrived in parse_json(body):
                _, blob = self._places[key]
                yield key, max(0, min(int(arrived), blob.size))
        except (ValueError, TypeError, KeyError) as error:
            raise CodeNotSentError(f"the node asks for what no copy has: {error}") from None

    def _contents(self, needed: list[tuple[str, int]]) -> Iterator[bytes]:
        size = sum(self._places[key][1].size - arrived for key, arrived in needed)
        sent = 0
        self._progress(Progress(0, size))
        for key, arrived in needed:
            for frame, count in self._content(key, arrived):
                yield frame
                sent += count
                self._progress(Progress(sent, size))

    def _content(self, key: str, at: int) -> Iterator[tuple[bytes, int]]:
        path, blob = self._places[key]
        try:
            with path.open("rb") as file:
                file.seek(at)
                while True:
                    part = file.read(min(PART, blob.size - at))
                    yield encode("code_blob", part, key=key, at=at), len(part)
                    at += len(part)
                    if at >= blob.size or not part:
                        return
        except OSError as error:
            raise CodeNotSentError(
                f"the run's copy of the code cannot be read: {path}: {error.strerror}"
            ) from error


def _places(manifest: Manifest, folder: Path) -> dict[str, tuple[Path, Blob]]:
    """Return a file of the run's own copy for every content; these files never change."""
    found: dict[str, tuple[Path, Blob]] = {}
    for entry in manifest.entries:
        if entry.target is None:
            found.setdefault(entry.blob.key, (folder / name_of(entry.name), entry.blob))
    return found
