"""A node that takes connections and says nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomlkit


@contextmanager
def silent_host() -> Iterator[socket.socket]:
    """A port that takes connections and says nothing: a front end waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def launch_arguments(home: Path, folder: Path, port: int) -> tuple[str | Path, ...]:
    """Of a start on a node of that port, which is in the node inventory then."""
    home.mkdir(mode=0o700, exist_ok=True)
    entry = {"address": "127.0.0.1", "port": port}
    (home / "nodes.toml").write_text(tomlkit.dumps({"version": 1, "nodes": {"silent": entry}}))
    (folder / "train.py").touch()
    return ("--script", folder / "train.py", "--nproc", "1", "--set", 'distributed.nodes=["silent"]')
