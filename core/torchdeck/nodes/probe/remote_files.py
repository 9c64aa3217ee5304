"""Runs and files of a node, over a probe session. Its answers are validated."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.nodes.probe.facts import Count, NodeData, Text
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.quantities import size

ASK_LIMIT = 60.0
"""Timeout in seconds for one answer: a piece may have to come over a slow link."""
DIGEST_LIMIT = 900.0
PIECE = 1 << 20
AHEAD = 4
"""Number of pieces requested before the first one is here, to avoid a round trip for each."""
_Name = Annotated[str, Field(max_length=4096)]


class _Runs(NodeData):
    folder: Text
    runs: tuple[Text, ...]


class _Tree(NodeData):
    files: tuple[tuple[_Name, Count, Annotated[int, Field(ge=-(2**63), le=2**63)]], ...]
    links: Count
    cut: bool


class RemoteSoundness(NodeData):
    """Result of reading a checkpoint there."""

    problems: tuple[Text, ...]
    unchecked: Count
    """Files without a checksum."""


class RemoteRuns(NamedTuple):
    """The runs of a node."""

    folder: str
    ids: tuple[str, ...]
    """Ids of those with a plan, oldest first."""


class RemoteFile(NamedTuple):
    """A plain file below a folder."""

    name: str
    """Relative path; every part of it is a name."""
    size: int
    modified: int
    """Nanoseconds since 1970."""


class RemoteFiles:
    """Sends requests to one node. All raise ProbeError or SshError."""

    def __init__(self, probe_session: ProbeSession, node: str) -> None:
        self._talk = probe_session
        self._node = node

    def runs(self, home: str | None) -> RemoteRuns:
        """Return the runs in TORCHDECK_HOME there, which the node inventory may set."""
        try:
            found = _Runs.model_validate(self._talk.ask(ProbeRequest.RUNS, ASK_LIMIT, home=home))
        except ValidationError as error:
            raise self._nonsense("its runs") from error
        return RemoteRuns(found.folder, tuple(sorted(found.runs)))

    def tree(self, folder: str, without: Sequence[str] = ()) -> list[RemoteFile]:
        """Return every plain file below `folder`, except those in its folders or files `without`."""
        try:
            found = _Tree.model_validate(
                self._talk.ask(ProbeRequest.TREE, ASK_LIMIT, folder=folder, without=list(without))
            )
        except ValidationError as error:
            raise self._nonsense(f"the files in {folder}") from error
        if found.cut:
            raise ProbeError(f"node {self._node}: there are more than {len(found.files)} files in {folder}")
        for name, _, _ in found.files:
            if not is_inner(name):
                raise self._nonsense(f"a file {name!r} in {folder}")
        return [RemoteFile(*file) for file in found.files]

    def pieces(self, path: str, at: int, end: int) -> Iterator[bytes]:
        """Yield bytes `at` to `end` of a file, with several requests ahead of the answers.

        A file that was truncated raises ProbeError. Until the last piece is taken no other request may be
        sent.
        """
        asked = at
        waiting = 0
        while at < end:
            while asked < end and waiting < AHEAD:
                self._talk.send(ProbeRequest.READ, path=path, at=asked, size=min(PIECE, end - asked))
                asked += min(PIECE, end - asked)
                waiting += 1
            wanted = min(PIECE, end - at)
            data = self._data(self._talk.receive(ProbeRequest.READ, ASK_LIMIT).get("data"))
            waiting -= 1
            if len(data) != wanted:
                raise ProbeError(f"node {self._node}: {path} has changed while it was read: try again")
            at += len(data)
            yield data

    def content(self, path: str, most: int) -> bytes:
        """Return a whole file of at most `most` bytes."""
        answer = self._talk.ask(ProbeRequest.READ, ASK_LIMIT, path=path, at=0, size=0)
        length = answer.get("size")
        if not isinstance(length, int) or not 0 <= length <= most:
            raise ProbeError(f"node {self._node}: {path} has more than {size(most)}")
        return b"".join(self.pieces(path, 0, length))

    def digest(self, path: str) -> str:
        """Return the current SHA-256 of a file there."""
        return str(self._talk.ask(ProbeRequest.DIGEST, DIGEST_LIMIT, path=path).get("sha256"))

    def checkpoint_soundness(self, path: str) -> RemoteSoundness:
        """Return what is wrong with the checkpoint of a script there, which is read whole."""
        answer = self._talk.ask(ProbeRequest.CHECKPOINT_PROBLEMS, DIGEST_LIMIT, path=path)
        try:
            return RemoteSoundness.model_validate(answer)
        except ValidationError as error:
            raise self._nonsense(f"what is wrong with {path}") from error

    def _data(self, text: object) -> bytes:
        try:
            return base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._nonsense("a piece of a file") from error

    def _nonsense(self, what: str) -> ProbeError:
        return ProbeError(f"node {self._node} sent an invalid answer: {what}")


def is_inner(name: str) -> bool:
    """Return whether a relative path stays below its start."""
    path = PurePosixPath(name)
    return (
        bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts and name != "."
    )
