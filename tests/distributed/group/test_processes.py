"""The same few functions in a process that torchrun, a person, Torchdeck or no one started."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command
from support.ranks.forked_rank import ForkedRank
from support.ranks.torch_process import TorchProcess
from support.system.free_port import free_port
from torchdeck.distributed import RendezvousError, cleanup_distributed, setup_distributed
from torchdeck.environment import DistributedConfig

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).parents[2] / "fakes" / "who_am_i.py"
LAUNCHER = (
    "RANK",
    "WORLD_RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
LIMIT = 90.0


def environment(**variables: object) -> dict[str, str]:
    """This test's environment with no launcher's variables in it but `variables`."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    return {**kept, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in variables.items()}}


def start(*argv: object, **variables: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, argv)],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(text: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of an output, whatever else stands in it."""
    return (json.loads(line) for line in text.splitlines() if line.startswith("{"))


def check(said: Mapping[str, Any], rank: int, world_size: int) -> None:
    """Rank, world size and local rank were the same all the time; in between the group was up."""
    which = [rank, world_size, rank, rank == 0]
    assert said == {
        "before": [False, *which],
        "during": [True, *which],
        "after": [False, *which],
        "sum": world_size * (world_size + 1) / 2,
        "backend": "gloo",
    }


def refused(rank: int, world_size: int, port: int) -> str:
    """What a rank says of the others that it cannot join."""
    with pytest.raises(RendezvousError) as error:
        setup_distributed(rank=rank, world_size=world_size, master_port=port, timeout=3.0)
    return str(error.value)


def test_a_plain_process() -> None:
    """It is rank 0 of 1 all the time, and its group of one takes collectives."""
    process = TorchProcess([str(SCRIPT)], env=environment())
    out, err = process.communicate(timeout=LIMIT)
    (said,) = lines(out)
    assert process.returncode == 0, err
    check(said, 0, 1)


def test_started_by_hand_in_four_shells() -> None:
    """RANK (or WORLD_RANK), WORLD_SIZE and a port are enough."""
    port = free_port()
    names = ["RANK", "WORLD_RANK", "RANK", "RANK"]
    processes = [
        TorchProcess([str(SCRIPT)], env=environment(WORLD_SIZE=4, MASTER_PORT=port, **{name: rank}))
        for rank, name in enumerate(names)
    ]
    outputs = [process.communicate(timeout=LIMIT) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    for rank, (out, _) in enumerate(outputs):
        (said,) = lines(out)
        check(said, rank, 4)


def test_started_by_torchrun() -> None:
    """torchrun's own store and variables are used."""
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT]
    process = start(*argv)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    said = sorted(lines(out), key=lambda line: line["during"][1])
    for rank, line in enumerate(said):
        check(line, rank, 2)
    assert len(said) == 2


@pytest.mark.soak  # tests/integration/test_headless.py has ranks of a script meet
def test_started_by_torchdeck(tmp_path: Path) -> None:
    """A script of a Torchdeck run has the same."""
    command = Command(tmp_path / "home")
    with nothing_left(command.home):
        done = command.run("--no-gui", "--script", SCRIPT, "--nproc", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    run = command.runs()[-1]
    for rank in range(2):
        (said,) = lines(run.attempt(1).rank(rank).stdout.read_text())
        check(said, rank, 2)


@pytest.mark.parametrize(
    ("here", "world_size", "said"),
    [
        ([0, 2], 3, "rank 1 of 3 did not come to 127.0.0.1:{port} within 3 s"),
        ([1], 2, "reached no one at 127.0.0.1:{port} (MASTER_ADDR:MASTER_PORT) within 3 s: rank 0 was not"),
    ],
    ids=["another", "the first"],
)
def test_a_rank_that_never_comes_is_named(here: list[int], world_size: int, said: str) -> None:
    """After the timeout that was asked for, every rank that is there says which is not."""
    port = free_port()
    ranks = [ForkedRank.start(partial(refused, rank, world_size, port)) for rank in here]
    for rank in ranks:
        assert said.format(port=port) in rank.finish(time.monotonic() + LIMIT, LIMIT).result


def test_a_port_that_is_taken() -> None:
    """Rank 0 says that it cannot have it, and how to continue."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rank = ForkedRank.start(partial(refused, 0, 2, port))
        said = rank.finish(time.monotonic() + LIMIT, LIMIT).result
    assert f"rank 0 cannot open 127.0.0.1:{port} (MASTER_ADDR:MASTER_PORT) for the others" in said
    assert "Choose a free port" in said


def test_a_config_or_values_not_both() -> None:
    """Two sources that could contradict each other are refused."""
    with pytest.raises(TypeError, match="not both"):
        setup_distributed(DistributedConfig(), rank=0)


@pytest.mark.parametrize(("rank", "said"), [(0, "rank 1 of 2 did not come"), (1, "rank 1 reached no one")])
def test_a_failed_rendezvous_is_one_sentence(rank: int, said: str) -> None:
    """Without C++ frames and warnings: after Python's traceback stands what happened, and nothing else."""
    code = "from torchdeck.distributed import setup_distributed; setup_distributed(timeout=1)"
    process = start("-c", code, RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    out, err = process.communicate(timeout=LIMIT)
    assert out == ""
    assert said in err.splitlines()[-1]
    assert err.startswith("Traceback")
    assert err.count("Traceback") == 1
    assert not any(word in err for word in ("frame #", "c10d", ".cpp"))


def variables() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in LAUNCHER}


def joined_twice(port: int) -> list[dict[str, str | None]]:
    """The launcher's variables before, during and after, by functions and by a strategy; one is changed."""
    os.environ.pop("RANK", None)
    os.environ.update({"WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "RANK": "0"})
    os.environ.pop("MASTER_PORT", None)
    found = [variables()]
    setup_distributed(master_port=port, master_addr="127.0.0.1")
    found.append(variables())
    cleanup_distributed()
    found.append(variables())
    setup_distributed(master_port=port)
    os.environ["MASTER_ADDR"] = "changed"
    cleanup_distributed()
    found.append(variables())
    return found


def test_leaving_puts_the_environment_back() -> None:
    """Variables that were not set are gone, others have their old value; those changed since are left."""
    port = free_port()
    rank = ForkedRank.start(partial(joined_twice, port))
    before, during, after, changed = rank.finish(time.monotonic() + LIMIT, LIMIT).result
    assert (during["MASTER_ADDR"], during["MASTER_PORT"]) == ("127.0.0.1", str(port))
    assert after == before
    assert changed == {**before, "MASTER_ADDR": "changed"}


def joined_with_other_timeouts(rank: int, port: int) -> list[int]:
    """How many ranks were there each time."""
    import torch.distributed as dist

    found = []
    for seconds in (20.0, 30.0, 25.0):
        setup_distributed(rank=rank, world_size=2, master_addr="127.0.0.1", master_port=port, timeout=seconds)
        found.append(dist.get_world_size())
        dist.barrier()  # the other may still be connecting
        cleanup_distributed()
    return found


def test_joining_again_with_another_timeout() -> None:
    """At the port that the process has kept open since it left."""
    port = free_port()
    ranks = [ForkedRank.start(partial(joined_with_other_timeouts, rank, port)) for rank in (0, 1)]
    deadline = time.monotonic() + LIMIT
    assert [rank.finish(deadline, LIMIT).result for rank in ranks] == [[2, 2, 2]] * 2


def refused_after(rank: int, world_size: int, port: int, seconds: float) -> str:
    """The error of a rank that comes so many seconds late."""
    time.sleep(seconds)
    try:
        setup_distributed(rank=rank, world_size=world_size, master_addr="127.0.0.1", master_port=port)
    except RendezvousError as error:
        return str(error)
    return ""


def test_a_rank_that_comes_late_is_told_that_others_differ() -> None:
    """Rank 0, which serves the store, is not gone by then."""
    port = free_port()
    places = ((0, 3, 0.0), (2, 4, 0.0), (1, 3, 3.0))
    ranks = [ForkedRank.start(partial(refused_after, *place[:2], port, place[2])) for place in places]
    deadline = time.monotonic() + LIMIT
    for rank in ranks:
        assert "start every rank with the same WORLD_SIZE" in rank.finish(deadline, LIMIT).result
