"""Sums through shared memory: exact, in order, and no endless wait for a rank that is gone."""

import math
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from torchdeck.distributed.group import shared_memory
from torchdeck.distributed.group.shared_memory import MOST, RankGridError, SharedMemoryReducer, size_for

pytestmark = pytest.mark.processes

LIMIT = 60.0
"""Seconds that a rank of these tests may take."""
SUMS = 2000


@pytest.fixture
def file() -> Iterator[Path]:
    """What ranks share, empty."""
    with tempfile.NamedTemporaryFile() as shared:
        shared.truncate(size_for(3))
        yield Path(shared.name)


def opened(file: Path, rank: int, world_size: int, timeout: float = LIMIT) -> SharedMemoryReducer:
    return SharedMemoryReducer(os.open(file, os.O_RDWR), rank=rank, world_size=world_size, timeout=timeout)


def start(rank: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """A process, and what it has to say."""
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=rank, args=(its, *arguments), daemon=True)
    process.start()
    its.close()
    return process, ours


def add_up(said: Connection, file: Path, rank: int, world_size: int) -> None:
    board = opened(file, rank, world_size)
    said.send("here")
    said.recv()  # all are: one that is not is taken for one that has ended
    found = []
    for number in range(SUMS):
        board.write([0.1 * rank + number, float(rank), *[1.0] * (number % 7)])
        found.append(board.read(2 + number % 7))
    said.send(found)


def test_ranks_get_the_same_sums_in_the_order_of_ranks(file: Path) -> None:
    """Thousands of sums of three processes, to the bit, none mixed with the one before or after."""
    ranks = [start(add_up, file, rank, 3) for rank in range(3)]
    expected = [
        [sum(0.1 * rank + number for rank in range(3)), 3.0, *[3.0] * (number % 7)] for number in range(SUMS)
    ]
    for _, said in ranks:
        assert said.poll(LIMIT)
        assert said.recv() == "here"
    for _, said in ranks:
        said.send("begin")
    for process, said in ranks:
        assert said.poll(LIMIT)
        assert said.recv() == expected
        process.join(LIMIT)


def test_what_is_not_finite_comes_through(file: Path) -> None:
    """A loss that is NaN or infinite is no missing one; the longest row fits."""
    board = opened(file, 0, 1)
    board.write([math.nan, math.inf, *[1.0] * (MOST - 2)])
    nan, infinite, *rest = board.read(MOST)
    assert math.isnan(nan)
    assert math.isinf(infinite)
    assert rest == [1.0] * (MOST - 2)
    board.close()


def write_and_end(said: Connection, file: Path) -> None:
    board = opened(file, 1, 2)
    board.write([1.0])
    said.send("written")
    said.recv()
    os._exit(1)


def test_a_rank_that_has_ended_is_named(file: Path) -> None:
    """What it wrote before still counts; the next sum fails long before the timeout."""
    board = opened(file, 0, 2)
    process, said = start(write_and_end, file)
    assert said.recv() == "written"
    board.write([2.0])
    assert board.read(1) == [3.0]
    board.write([2.0])
    said.send("end")
    with pytest.raises(RankGridError, match="rank 1 has ended"):
        board.read(1)
    process.join(LIMIT)
    board.close()


def live_on(said: Connection, file: Path) -> None:
    board = opened(file, 1, 2)
    said.send("here")
    said.recv()
    board.close()


def test_a_rank_that_lives_is_waited_for_until_the_timeout(file: Path) -> None:
    """A slow rank is not taken for a dead one."""
    board = opened(file, 0, 2, timeout=3 * shared_memory._LOOK_FOR_DEAD)
    process, said = start(live_on, file)
    assert said.recv() == "here"
    board.write([2.0])
    with pytest.raises(RankGridError, match="rank 1 did not say its loss within 1 s"):
        board.read(1)
    said.send("end")
    process.join(LIMIT)
    board.close()


def test_what_is_half_written_is_not_read(file: Path) -> None:
    """The number of the sum may be seen before what belongs to it."""
    board = opened(file, 0, 1, timeout=0.1)
    board.write([2.0])
    with file.open("r+b") as memory:
        memory.seek(shared_memory._PLACE + shared_memory._HEAD.size)
        memory.write(b"\1")
    with pytest.raises(RankGridError, match="did not say its loss"):
        board.read(1)
    board.close()
