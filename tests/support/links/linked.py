"""A run whose node is a folder of this machine, and a link to it over pipes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.agents.bundle import lay_bundle
from support.links.local_stream import LocalStream, python_stream
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.remote.bootstrap import ByteStream
from torchdeck.launching.remote.link import LinkTarget, NodeLink

RUN_ID = "20261121T034455Z-linked-1f09ab"
NODE = "n1"
MIRRORED_NOT = ("agent.lock", "holder.lock", "exit.tmp", "trainer_files.json", "ending")
"""Names that a node keeps for itself."""


class LinkedRun:
    """Both sides' run directories and the link between them."""

    node = NODE

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self.home = folder / "home here"
        self.node_home = self.home if shared else folder / "home of the node"
        self.shipped = lay_bundle(self.home)
        self.here = RunLayout(self.home / "runs" / RUN_ID)
        self.there = RunLayout(self.node_home / "runs" / RUN_ID)
        self.here.root.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.streams: list[LocalStream] = []
        self.wrap: Callable[[LocalStream], ByteStream] = lambda stream: stream
        self.python: list[str] = []
        self.link = self.new_link()

    def new_link(self) -> NodeLink:
        """A link that was not started."""
        target = LinkTarget(self.here, self.node, str(self.node_home), self.shipped)
        self.link = NodeLink(target, self._dial)
        return self.link

    def _dial(self, _limit: float) -> ByteStream:
        self.streams.append(python_stream(*self.python))
        return self.wrap(self.streams[-1])

    def make_node(self) -> None:
        """The folders that an agent would make."""
        self.there.node(NODE).root.mkdir(parents=True)
        for rank in range(2):
            self.there.attempt(1).rank(rank).metrics.mkdir(parents=True)

    def bundle_there(self) -> None:
        """The shipped folder lies on the node already."""
        shutil.copytree(self.shipped, self.node_home / "shipped" / self.shipped.name)
        self.node_home.chmod(0o700)
        (self.node_home / "shipped").chmod(0o700)

    def up(self, seconds: float = 60.0) -> NodeLink:
        """The link, once it is up."""
        if not self.link._thread.is_alive():
            self.link.start()
        wait_until(lambda: self.link.state.state == "up", seconds, f"the link to be up: {self.link.state}")
        return self.link

    def kill_server(self) -> None:
        """SIGKILL to the node's end."""
        os.kill(self.streams[-1].process.pid, signal.SIGKILL)

    def differences(self) -> list[str]:
        """Files of the node that are not the same here; what an atomic write left half done is none."""
        found = []
        for path in sorted(self.there.root.rglob("*")):
            name = path.relative_to(self.there.root)
            kept = (
                path.name in MIRRORED_NOT
                or "inbox" in name.parts
                or name.parts[0] in ("plan.json", "checkpoints")
            )
            if path.is_file() and not kept and not path.name.startswith(".") and path.name != "stop":
                other = self.here.root / name
                if not other.is_file() or other.read_bytes() != path.read_bytes():
                    found.append(f"{name}: {path.stat().st_size} there")
        return found

    def close(self) -> None:
        self.link.close()
        for stream in self.streams:
            stream.kill()


@contextmanager
def linked(folder: Path, *, shared: bool = False) -> Iterator[LinkedRun]:
    """A run with a link; its processes are ended with it."""
    run = LinkedRun(folder, shared=shared)
    try:
        yield run
    finally:
        run.close()
