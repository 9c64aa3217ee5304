"""Real ranks of a recipe run, started without torchrun: each is `python -m torchdeck.distributed.entry`.

They are forked where torch is imported already (`support.ranks.torch_process`), unless they are to be started
again.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ranks.torch_process import TorchProcess
from support.system.free_port import free_port
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.rank_layout import RankLayout

LIMIT = 200.0
"""Seconds a run of these tests may take."""

ENTRY = ("-m", "torchdeck.distributed.entry")
Rank = TorchProcess | subprocess.Popen[str]

_LOSS = re.compile(r"^step (\d+)/\d+ loss (\S+) ", re.MULTILINE)
_VALIDATION = re.compile(r"^step (\d+)/\d+ validation_loss (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class FinishedRanks:
    """What ranks left behind."""

    layout: RunLayout
    attempt: int
    codes: list[int]
    stdout: list[str]
    stderr: list[str]

    def losses(self) -> dict[int, float]:
        """Step → the loss rank 0 printed."""
        return {int(step): float(loss) for step, loss in _LOSS.findall(self.stdout[0])}

    def heldout(self) -> dict[int, float]:
        """Step → the validation loss rank 0 printed."""
        return {int(step): float(loss) for step, loss in _VALIDATION.findall(self.stdout[0])}

    def rank(self, rank: int) -> RankLayout:
        return self.layout.attempt(self.attempt).rank(rank)

    def error(self, rank: int) -> dict[str, Any]:
        """The rank's error.json, without its envelope."""
        message: dict[str, Any] = json.loads(self.rank(rank).error.read_bytes())["message"]
        return message

    def succeeded(self) -> "FinishedRanks":
        assert self.codes == [0] * len(self.codes), "\n".join(self.stderr)
        return self


def recipe_settings(
    run_dir: Path,
    recipe: str = "byte-gpt",
    *,
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    strategy: str = "ddp",
    **training: Any,
) -> dict[str, Any]:
    """Settings as the planner writes them; other keywords go into its training table."""
    every = training.pop("every", None)
    options = {name: training.pop(name, {}) for name in ("ddp", "fsdp", "hsdp", "deepspeed")}
    final = training.pop("final", True)
    table = {"steps": 4, "epochs": None, "microbatch": 4, "accumulation": 1, "optimizer": "adamw", "lr": 1e-2}
    table |= training
    return {
        "version": 1,
        "recipe": recipe,
        "model": dict(model or {}),
        "data": dict(data or {}),
        "training": {**table, "scaled_lr": table["lr"]},
        "distributed": {"strategy": strategy, "backend": "gloo", "timeout": 60.0, **options},
        "checkpoint": {
            "directory": str(run_dir / "checkpoints"),
            "every": every,
            "keep_last": 3,
            "final": final,
        },
        "telemetry": {"every": 1},
    }


def start_ranks(
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    run_dir: Path,
    world_size: int,
    *,
    attempt: int = 1,
    resume: str = "",
    argv: Sequence[str] = ENTRY,
    anew: bool = False,
) -> list[Rank]:
    """Start the ranks of one attempt: Python with `argv`; one settings for all, or one for each.

    Args:
        again: each rank imports torch itself, for seconds, as torchrun's do.
    """
    each = [settings] * world_size if isinstance(settings, Mapping) else settings
    port = free_port()
    common = {
        "TORCHDECK_RUN_ID": run_dir.name,
        "TORCHDECK_RUN_DIR": str(run_dir),
        "TORCHDECK_ATTEMPT": str(attempt),
        "TORCHDECK_RESUME": resume,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world_size),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return [
        _start(
            argv,
            {
                **os.environ,
                **common,
                "TORCHDECK_RECIPE": json.dumps(each[rank]),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            },
            anew=anew,
        )
        for rank in range(world_size)
    ]


def _start(argv: Sequence[str], env: Mapping[str, str], *, anew: bool) -> Rank:
    if not anew:
        return TorchProcess(argv, env=env)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *argv], env=env, stdout=pipe, stderr=pipe, text=True)


def wait_for_ranks(
    ranks: Sequence[Rank], run_dir: Path, *, attempt: int = 1, limit: float = LIMIT
) -> FinishedRanks:
    """Wait for ranks to end; those that do not are killed and the test fails."""
    try:
        outputs = [rank.communicate(timeout=limit) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    codes = [rank.wait(LIMIT) for rank in ranks]
    return FinishedRanks(
        RunLayout(run_dir), attempt, codes, [out for out, _ in outputs], [err for _, err in outputs]
    )


def run_ranks(
    settings: Mapping[str, Any], run_dir: Path, world_size: int, *, attempt: int = 1, resume: str = ""
) -> FinishedRanks:
    """Start the ranks of one attempt and wait for them."""
    ranks = start_ranks(settings, run_dir, world_size, attempt=attempt, resume=resume)
    return wait_for_ranks(ranks, run_dir, attempt=attempt)
