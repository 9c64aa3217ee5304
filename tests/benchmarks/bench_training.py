"""Our trainer against a hand-written DDP loop of the same model, and two ranks against one."""

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from benchmarks.workers.training_worker import TURN
from support.ranks.recipe_ranks import recipe_settings, start_ranks, wait_for_ranks

WORKER = Path(__file__).parent / "workers/training_worker.py"
MODEL = {"layers": 4, "heads": 4, "width": 128, "context": 128}
DATA = {"source": "stdlib", "max_bytes": 3_000_000}
MICROBATCH = 16
WARM_UP = 2
"""Turns left out: first steps allocate."""
PAIRS = 24
SCALING_ROUNDS = 3
SCALING_TURNS = 5
LIMIT = 500.0
"""Seconds; a loaded machine is slow, not broken."""


def run() -> list[Row]:
    """Throughput of the trainer relative to plain torch; speed-up from one rank to two at one thread each."""
    return [_against_plain_torch(), _speed_up()]


def _against_plain_torch() -> Row:
    """Both in the same two processes, taking turns, so that what else the machine does hits both."""
    ours, theirs = (_rate(2, turns) for turns in _turns(2, WARM_UP + PAIRS))
    return Row(
        name="training on two ranks",
        ours=ours,
        unit="tokens/s",
        peer=theirs,
        peer_name="hand-written DDP loop",
        ratio=ours / theirs,
        wanted=0.98,
    )


def _speed_up() -> Row:
    """Rounds of one rank and of two in turn; twice the samples a step on two."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(SCALING_ROUNDS):
        for world_size, found in rates.items():
            found.append(_rate(world_size, _turns(world_size, WARM_UP + SCALING_TURNS, ["alone"])[0]))
    one, two = (statistics.median(found) for found in rates.values())
    return Row(
        name="two ranks beside one, a thread each",
        ours=two,
        unit="tokens/s",
        peer=one,
        peer_name="one rank",
        ratio=two / one,
    )


def _rate(world_size: int, seconds: list[float]) -> float:
    """Tokens a second of all ranks at the median step."""
    return MICROBATCH * MODEL["context"] * world_size / statistics.median(seconds)


def _turns(
    world_size: int, turns: int, arguments: list[str] | None = None
) -> tuple[list[float], list[float]]:
    """Seconds a step of rank 0, ours and theirs, one number a turn."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder)
        settings = recipe_settings(
            run_dir,
            model=MODEL,
            data=DATA,
            microbatch=MICROBATCH,
            steps=turns * TURN,
            clip=1.0,
            lr=1e-3,
            final=False,
        )
        settings["telemetry"]["every"] = 10
        argv = [str(WORKER), f"{run_dir}/turns", *(arguments or [])]
        wait_for_ranks(
            start_ranks(settings, run_dir, world_size, argv=argv, anew=True), run_dir, limit=LIMIT
        ).succeeded()
        found = json.loads((run_dir / "turns0").read_text())
    return found["ours"][WARM_UP:], found["theirs"][WARM_UP:]
