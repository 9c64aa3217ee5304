"""Examples about DDP and FSDP on real ranks: the same calls, and the weights of the same training by hand."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from support.documents import ddp_fsdp_ranks as ranks
from support.ranks.measured_ranks import Job, measure
from torchdeck.compat.ddp_fsdp import DistributedSampler

pytestmark = pytest.mark.processes

SHARDINGS = {
    "fp32": {"dtype": "float32"},
    "bf16": {"dtype": "bfloat16"},
    "fp16": {"dtype": "float16"},
    "grad-op": {"dtype": "float32", "sharding": "SHARD_GRAD_OP"},
}
CHECKPOINTS = {
    "ddp": ("ddp", "ddp", "library"),
    "fsdp": ("fsdp", "fsdp", "library"),
    "ddp own": ("ddp", "ddp", "own"),
    "fsdp own": ("fsdp", "fsdp", "own"),
    "ddp to fsdp own": ("ddp", "fsdp", "own"),
    "fsdp to ddp own": ("fsdp", "ddp", "own"),
}
"""Saved under, loaded under, and whose manager."""
Found = dict[str, list[Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank of each job found; all of them forked from one process."""

    def folder() -> str:
        return str(tmp_path_factory.mktemp("saved"))

    jobs: dict[str, Job] = {
        "utilities": {"body": "utilities"},
        "alone": {"body": "utilities", "world_size": 1},
        "loop": {"body": "training_loop", "folder": folder()},
        "loop alone": {"body": "training_loop", "folder": folder(), "world_size": 1},
        "accumulation": {"body": "accumulation", "accumulation": 4, "clip": 0.1},
        "no clipping": {"body": "accumulation", "accumulation": 2, "clip": 0.0},
        "failing": {"body": "failing"},
        **{f"sharded {name}": {"body": "sharded", **job} for name, job in SHARDINGS.items()},
        **{
            f"saved {name}": {
                "body": "checkpoints",
                "saved": saved,
                "loaded": loaded,
                "manager": manager,
                "folder": folder(),
            }
            for name, (saved, loaded, manager) in CHECKPOINTS.items()
        },
    }
    done = measure(
        "support.documents.ddp_fsdp_ranks:body", [{"world_size": 2, **job} for job in jobs.values()]
    )
    return dict(zip(jobs, done, strict=True))


@pytest.mark.block("ddp_fsdp", 1, 9)
def test_functions(found: Found) -> None:
    """Rank, world size and local rank before and in the group; DDP and FSDP2; equal ranges of samples."""
    for rank, one in enumerate(found["utilities"]):
        assert one["joined"] == [rank, 2, rank]
        assert one["before"] == [rank, 2, rank == 0, False]
        assert one["inside"] == [rank, 2, rank == 0, True]
        assert one["ddp"]
        assert one["units"] == [[""], ["", "body.0", "body.2"]]
        assert one["indices"] == [list(range(5)), list(range(5, 10))][rank]
        assert f"number {rank}, its local rank, and {rank + 1} is given" in one["other"]
        assert one["left"]


@pytest.mark.block("ddp_fsdp", 1)
def test_functions_in_a_single_process(found: Found) -> None:
    """It joins nothing, and models come back as they are."""
    (one,) = found["alone"]
    assert one["joined"] == [0, 1, 0]
    assert one["before"] == one["inside"] == [0, 1, True, False]
    assert (one["ddp"], one["units"], one["indices"]) == (False, [[], []], list(range(11)))


def test_the_samplers_arguments() -> None:
    sampler = DistributedSampler(10, 4, rank=1, world_size=3)
    assert (sampler.num_samples, sampler.start_idx, sampler.end_idx) == (3, 3, 6)
    assert sampler.get_indices() == range(3, 6)
    assert len(DistributedSampler(2, 4, rank=2, world_size=3)) == 0
    for arguments, says in (
        ({"rank": 3, "world_size": 3}, "rank is 3: expected a whole number from 0 to 2"),
        ({"dataset_size": -1}, "dataset_size is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
    ):
        with pytest.raises(ValueError, match=says):
            DistributedSampler(**{"dataset_size": 10, "batch_size": 1, **arguments})


@pytest.mark.block("ddp_fsdp", 2)
@pytest.mark.parametrize(("name", "world_size"), [("loop", 2), ("loop alone", 1)])
def test_training_loop(found: Found, name: str, world_size: int) -> None:
    """Weights are those of one process on all batches; the main process alone logs and saves."""
    expected = ranks.reference(world_size, ranks.STEPS)
    for rank, one in enumerate(found[name]):
        assert one["weights"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert one["world_size"] == world_size
        assert one["logged"] == (4 if rank == 0 else 0)


@pytest.mark.soak
@pytest.mark.block("ddp_fsdp", 2)
def test_training_loop_with_compile(tmp_path: Path) -> None:
    """Wrapped first, compiled afterwards."""
    job = {"world_size": 2, "body": "training_loop", "compile": True, "folder": str(tmp_path)}
    (done,) = measure("support.documents.ddp_fsdp_ranks:body", [job])
    expected = ranks.reference(2, ranks.STEPS)
    assert [one["weights"] for one in done] == [pytest.approx(expected, rel=1e-4, abs=1e-5)] * 2


@pytest.mark.block("ddp_fsdp", 3)
@pytest.mark.parametrize(
    ("name", "accumulation", "clip"), [("accumulation", 4, 0.1), ("no clipping", 2, 0.0)]
)
def test_accumulation_and_clipping(found: Found, name: str, accumulation: int, clip: float) -> None:
    """Loss divided by the steps, one update for each `accumulation` of them, clipped to the norm."""
    expected = ranks.reference(2, ranks.STEPS, accumulation=accumulation, clip=clip)
    for rank, one in enumerate(found[name]):
        assert one["weights"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert len(one["logged"]) == (ranks.STEPS // accumulation if rank == 0 else 0)


@pytest.mark.block("ddp_fsdp", 4)
@pytest.mark.parametrize("name", SHARDINGS)
def test_fsdp_with_mixed_precision(found: Found, name: str) -> None:
    """All parameters are sharded, the forward pass computes in the policy's dtype, close to fp32."""
    expected = ranks.reference(2, 2)
    for one in found[f"sharded {name}"]:
        assert one["sharded"]
        assert one["computed"] == f"torch.{SHARDINGS[name]['dtype']}"
        tolerance = 1e-5 if SHARDINGS[name]["dtype"] == "float32" else 2e-2
        assert one["weights"] == pytest.approx(expected, abs=tolerance)
        no_shard, limit, dtype = one["refused"]
        assert "wrap_model_ddp replaces NO_SHARD" in no_shard
        assert "limit_all_gathers is False" in limit
        assert "mixed_precision has torch.int8: give torch.float32" in dtype


@pytest.mark.block("ddp_fsdp", 6)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(found: Found, name: str) -> None:
    """By the library's manager or the script's own: what is loaded continues as if it never stopped."""
    for one in found[f"saved {name}"]:
        assert one["step"] == 3
        assert one["loaded"] == pytest.approx(ranks.reference(2, 3), rel=1e-4, abs=1e-5)
        straight, resumed = one["weights"]
        exact = " to " not in name
        assert resumed == (straight if exact else pytest.approx(straight, rel=1e-4, abs=1e-5))
        assert "there is no checkpoint in" in one["missing"]


@pytest.mark.block("ddp_fsdp", 6)
def test_a_failed_save_fails_on_every_rank(found: Found) -> None:
    says = "saving the checkpoint of step 3 failed: rank 0: step_3.pt: No space left on device"
    assert found["failing"] == [says, says]


def options() -> argparse.ArgumentParser:
    """The example's options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--use_ddp", action="store_true")
    parser.add_argument("--use_fsdp", action="store_true")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--grad_clip", type=float, default=1.0)
    return parser


@pytest.mark.block("ddp_fsdp", 7)
@pytest.mark.parametrize("strategy", ["--use_ddp", "--use_fsdp"], ids=["ddp", "fsdp"])
def test_options_as_keys(strategy: str) -> None:
    """A script's options, and the keys that docs/compat.md names for them, make the same settings."""
    from torchdeck.config.loader import config_from_dict

    line = ["--distributed", strategy, "--gradient_accumulation_steps", "4", "--grad_clip", "0.5"]
    args = options().parse_args(line)
    documented = keys()
    table: dict[str, Any] = {"run": {"recipe": "byte-gpt"}, "training": {"steps": 1, "lr": 0.1}}
    values = {"--distributed": 2, strategy: strategy.removeprefix("--use_")}
    values |= {
        "--gradient_accumulation_steps": args.gradient_accumulation_steps,
        "--grad_clip": args.grad_clip,
    }
    for option, value in values.items():
        section, _, key = documented[option].partition(".")
        table.setdefault(section, {})[key] = value
    config = config_from_dict(table, Path.cwd())
    assert config.distributed.nproc == 2
    assert config.distributed.strategy == strategy.removeprefix("--use_")
    assert config.training.accumulation == 4
    assert config.training.clip == 0.5


def keys() -> dict[str, str]:
    """Option → key, from the table in docs/compat.md."""
    page = (Path(__file__).resolve().parents[2] / "docs/compat.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `--")]
    return {
        option: re.findall(r"`([\w.]+)`", key)[0]
        for named, key in rows
        for option in re.findall(r"`(--\w+)", named)
    }
