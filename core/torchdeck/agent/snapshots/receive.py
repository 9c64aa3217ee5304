"""The node's end of a transfer of code: says what is missing, takes it, and makes the run's own copy of it.

Frames go in and frames come out (`agent.link.frames`), over whatever stream there is:

    code_list    →   {run, of} and a part of the manifest, again and again until `of` bytes are there
    code_needed  ←   {more} and a part of [[key, bytes that arrived before], …] as JSON
    code_blob    →   {key, at} and bytes, until the content is complete
    code_end     →
    code_needed again, or code_done  ←  {tree}, or at any time code_refused  ←  {why}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from torchdeck.agent.snapshots.blobs import BlobDamagedError, BlobMissingError
from torchdeck.agent.snapshots.folder import has_copy, make_from_store, store_of
from torchdeck.agent.snapshots.manifest import Blob, Manifest, ManifestError
from torchdeck.contract.byte_size import size
from torchdeck.contract.frames import Frame, encode
from torchdeck.contract.layout import Home, RunLayout

LIST_LIMIT = 64 * 2**20
"""Bytes of a manifest: hundreds of thousands of files."""
NEEDED_AT_ONCE = 20_000
"""Contents named in one frame."""
ROUNDS = 3
"""How often what arrives damaged, or is freed by another run's end, is asked for again."""
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Receiver:
    """Takes the code of one run into `home`, TORCHDECK_HOME.

    Attributes:
        over: nothing more is expected: the copy is there, or `why` says what stood in the way.
        why: empty, or a sentence.
    """

    def __init__(self, home: Path) -> None:
        self.over = False
        self.why = ""
        self._home = home
        self._store = store_of(home)
        self._listed = b""
        self._layout: RunLayout | None = None
        self._manifest = Manifest(())
        self._wanted: dict[str, Blob] = {}
        self._rounds = 0

    def handle(self, frame: Frame) -> Iterator[bytes]:
        """Take a frame from the other end; what is to be sent to it."""
        steps: dict[str, Callable[[Frame], Iterator[bytes]]] = {
            "code_list": self._take_list,
            "code_blob": self._take_blob,
            "code_end": self._make,
        }
        step = steps.get(frame.kind)
        if step is None or (frame.kind != "code_list" and self._layout is None):
            yield self._refuse(f"a frame {frame.kind!r} came where none such is expected")
            return
        try:
            yield from step(frame)
        except OSError as error:
            place = error.filename or self._home
            yield self._refuse(
                f"the code cannot be written: {place}: {error.strerror}: free some space there"
            )
        except (ManifestError, ValueError) as error:
            yield self._refuse(str(error))

    def _take_list(self, frame: Frame) -> Iterator[bytes]:
        run, whole = frame.text("run"), frame.number("of")
        if _RUN.fullmatch(run) is None or whole > LIST_LIMIT or self._layout is not None:
            raise ManifestError(f"a list of {size(whole)} for run {run!r} is not taken")
        self._listed += frame.body
        if len(self._listed) > whole:
            raise ManifestError(f"a list of {whole} bytes came with {len(self._listed)}")
        if len(self._listed) < whole:
            return
        self._manifest = Manifest.from_bytes(self._listed)
        self._layout = Home(self._home).run(run)
        self._layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield from self._make(frame)

    def _take_blob(self, frame: Frame) -> Iterator[bytes]:
        key, at = frame.text("key"), frame.number("at")
        blob = self._wanted.get(key)
        if blob is None:
            return  # given up in this round, as what came before it was damaged
        try:
            with self._store.incoming(blob) as incoming:
                incoming.write(at, frame.body)
                if at + len(frame.body) == blob.size:
                    del self._wanted[key]
                    incoming.finish()
        except BlobDamagedError:
            self._wanted.pop(key, None)
        yield from ()

    def _make(self, _frame: Frame) -> Iterator[bytes]:
        """Make the copy, or say what is missing for it."""
        layout, manifest = self._layout, self._manifest
        if layout is None:
            return
        if layout.code.exists() and not has_copy(layout, manifest):
            raise ManifestError(
                f"{layout.code} holds another copy of the code already, and a run's never changes"
            )
        missing = {} if has_copy(layout, manifest) else self._missing()
        if not missing:
            try:
                make_from_store(layout, manifest, self._store)
            except BlobMissingError:  # the end of another run freed it in this moment
                missing = self._missing()
            else:
                self.over = True
                yield encode("code_done", tree=manifest.tree_hash)
                return
        self._rounds += 1
        if self._rounds > ROUNDS:
            raise ManifestError(
                f"{len(missing)} files arrived damaged {ROUNDS} times: the connection is unreliable"
            )
        self._wanted = missing
        yield from self._needed(missing)

    def _missing(self) -> dict[str, Blob]:
        return {key: blob for key, blob in self._manifest.blobs().items() if not self._store.has(blob)}

    def _needed(self, missing: dict[str, Blob]) -> Iterator[bytes]:
        wanted = [[key, self._store.arrived(blob)] for key, blob in missing.items()]
        for begin in range(0, max(1, len(wanted)), NEEDED_AT_ONCE):
            part = json.dumps(wanted[begin : begin + NEEDED_AT_ONCE], separators=(",", ":"))
            yield encode("code_needed", part.encode("ascii"), more=begin + NEEDED_AT_ONCE < len(wanted))

    def _refuse(self, why: str) -> bytes:
        self.over, self.why = True, why
        return encode("code_refused", why=why[:2000])
