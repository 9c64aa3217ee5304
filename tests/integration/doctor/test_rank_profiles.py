"""Profiles of a running script, which knows nothing of them."""

import gzip
import json
from pathlib import Path

import pytest

from support.cli.command import Command, wait_for_event
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
weights = torch.zeros(64, 64)
steps = 0
ended = torch.zeros(1)
while not ended:
    dist.all_reduce(weights @ weights)
    ended += os.path.exists(sys.argv[1])
    dist.all_reduce(ended)  # the same step for all
    steps += 1
    if steps == 1:
        open(f"{sys.argv[1]}-{dist.get_rank()}", "w").close()
dist.barrier()
dist.destroy_process_group()
print("ended after", steps, flush=True)
"""


def names(trace: str) -> set[str]:
    with gzip.open(trace, "rt") as file:
        return {str(each.get("name")) for each in json.load(file)["traceEvents"]}


@pytest.mark.soak  # test_profiles.py and test_profiling.py have the sides of agent and rank
def test_two_ranks_of_a_plain_script(tmp_path: Path) -> None:
    """Each has a trace of its work and its collectives; the program ends well, and reports nothing of it."""
    pytest.importorskip("torch")
    command, folder, end = Command(tmp_path / "home"), tmp_path / "work", tmp_path / "end"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    config = folder / "run.toml"
    config.write_text(
        f'[run]\nscript = "train.py"\nargs = ["{end}"]\n[distributed]\nnproc = 2\ndevices = "cpu"\n'
    )
    with command.start("--no-gui", "--trust", config) as process:
        try:
            for rank in range(2):
                wait_until((tmp_path / f"end-{rank}").exists, 90, f"the first step of rank {rank}")
            found = command.json("runs", "profile", "latest", "--seconds", "1")["ranks"]
            assert [each["rank"] for each in found] == [0, 1]
            run: RunLayout = command.the_run()
            for each in found:
                assert each["note"] == "", each
                assert {"aten::mm", "c10d::allreduce_"} <= names(each["path"]), each
                assert Path(each["path"]).is_relative_to(run.root / "attempts" / "1" / "profiles")
            one = command.run("runs", "profile", "latest", "--ranks", "1", "--seconds", "0.5")
            assert one.returncode == 0, one.stdout + one.stderr
            assert one.stdout.startswith("rank 1: /")
            refused = command.run("runs", "profile", "latest", "--ranks", "2")
            assert refused.returncode != 0
            assert "the run has no rank 2" in refused.stdout + refused.stderr
        finally:
            end.touch()
        wait_for_event(run, "finished", 60)
        assert process.wait(60) == 0
