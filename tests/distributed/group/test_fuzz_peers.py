"""What a stranger among the ranks, or at the store's door, may send: refused by documented errors alone."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.agent.store_order import StoreStrangers, order_from
from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, Manifest, entries_from_json
from torchdeck.distributed.checkpoints.files.dcp import plan_from_json, results_from_json
from torchdeck.distributed.checkpoints.peers import by_name, count, file_name, listed, manifest_of, text
from torchdeck.distributed.store.proof import Sealing, StrangerError, demand_proof

ITEM = ["shard", "weight", [0, 0], [0, 0], [2, 3], [4, 3], "float32", [True, False]]
RESULTS = [[24, "__0_0.distcp", 0, 1200]]
FILES = {"__0_0.distcp": {"size": 3, "sha256": "0" * 64, "node": "node 0 (a)"}}
MANIFEST = Manifest(3, 2, "ddp", "run", 1, 0.0, 1.0, {}, "0" * 64, {"a": FileEntry(3, "0" * 64)})
ORDER = {"key": "00ff", "strangers": "/run/strangers.json"}
STRANGERS = {"count": 3, "address": "10.0.0.1", "why": "it is one"}


PLAN = plan_from_json([ITEM])
READERS: tuple[Callable[[Any], object], ...] = (
    plan_from_json,
    lambda value: results_from_json(value, PLAN, 0),
    entries_from_json,
    listed(text),
    listed(count),
    by_name(file_name),
    by_name(manifest_of(Path("/checkpoints"))),
)


def read_answer(case: bytes, _: Path) -> None:
    for read in READERS:
        with contextlib.suppress(ValueError, CheckpointError):
            read(parse_json(case, file_names=True))


def test_answers_of_ranks() -> None:
    """Plans and results of a save, files, names and manifests."""
    read_all(
        read_answer,
        hostile.documents([ITEM, ITEM], RESULTS, FILES, ["a", "b"], {"a": MANIFEST.text}) | st.binary(),
    )


def read_at_the_door(case: bytes, _: Path) -> None:
    stranger, door = socket.socketpair()
    with stranger, door:
        stranger.sendall(case[: 1 << 16])
        stranger.shutdown(socket.SHUT_WR)
        with contextlib.suppress(StrangerError, OSError):
            demand_proof(door, b"key")
            raise AssertionError("a stranger was let in")
    with contextlib.suppress(StrangerError):
        assert Sealing(b"a", b"b").open(case) == b""


def test_strangers_at_the_door() -> None:
    """Neither lets in a stranger, nor waits for one that has closed its end, nor opens its frames."""
    greeting = b"torchdeck-store 1\n"
    read_all(
        read_at_the_door,
        hostile.damaged(greeting + b"n" * 32 + b"p" * 32)
        | hostile.damaged(b"\0\0\0\1" + b"s" * 17)
        | st.binary(),
    )


def read_files_of_the_store(case: bytes, place: Path) -> None:
    path = place / "strangers.json"
    path.write_bytes(case)
    news = StoreStrangers(path).news()
    assert news is None or (news["count"] > 0 and len(news["address"]) + len(news["why"]) < 2000)
    with contextlib.suppress(ValueError):
        order_from(case)


def test_files_of_the_store() -> None:
    """The count of strangers, and what torchrun reads on its standard input."""
    read_all(read_files_of_the_store, hostile.documents(STRANGERS, ORDER) | st.binary())
