"""Long pauses that are no hangs: with a limit of two seconds none of them is taken for one."""

from __future__ import annotations

import pytest

from support.agents.agent_run import Maker, with_policy
from support.doctor.faults import WITH_HEARTBEAT

pytest.importorskip("torch", reason="the ranks train with it")
pytestmark = [pytest.mark.doctor, pytest.mark.processes, pytest.mark.soak, pytest.mark.timeout(240)]

PROGRAM = """
import json, os, subprocess, sys, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            sum(range(1000))
        return torch.ones(4)

def steps(count):
    for _ in range(count):
        time.sleep(0.02)
        dist.all_reduce(x)

def main():
{body}

if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, x = dist.get_rank(), torch.ones(8)
    steps(30)
    main()
    steps(30)
"""
PAUSES = {
    "compilation": """
    layers = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(12)))
    torch.compile(layers)(torch.ones(4, 32))
""",
    "evaluation-by-one-rank": """
    def evaluate():
        product, until = torch.randn(300, 300), time.monotonic() + 8
        while time.monotonic() < until:
            product = (product @ product).tanh()
    if rank == 0:
        evaluate()
""",
    "saves-by-one-rank": """
    if rank == 0:
        for _ in range(12):
            torch.save({"a": torch.randn(6_000_000)}, "checkpoint.pt")
    dist.barrier()
""",
    "slow-workers": """
    for _ in DataLoader(Slow(), batch_size=8, num_workers=1):
        dist.all_reduce(x)
""",
    "preparation-in-python": """
    if rank == 1:
        table = {}
        for number in range(3_000_000):
            table[number] = str(number)
        json.loads(json.dumps(list(table.values())))
""",
    "a-program-of-one-rank": """
    burn = "import time\\nuntil = time.monotonic() + 7\\nwhile time.monotonic() < until: pass"
    if rank == 0:
        subprocess.run([sys.executable, "-c", burn])
""",
}


@pytest.mark.parametrize("name", PAUSES)
def test_a_long_pause_is_no_hang(name: str, make_run: Maker) -> None:
    text = PROGRAM.format(body=PAUSES[name])
    policy = with_policy(hang_after=2.0, on_hang="stop")
    run = make_run(text, policy=policy, env=WITH_HEARTBEAT).start()
    assert run.finished(180)["state"] == "SUCCEEDED", run.describe()
    assert not run.events("hang")
