"""What the packages themselves write is recognised."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.checkpoints.checkpoint_search import find_checkpoints
from torchdeck.trainers.checkpoints.soundness import soundness_of

WRITES = """
    import pathlib
    import accelerate, torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file
    from torchtitan.components.checkpointer import dcp as titan

    model = torch.nn.Linear(100, 100)
    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(model)
    accelerator.save_state("accelerated/checkpoint-30")
    path = titan.CheckpointManager._create_checkpoint_id(type("Own", (), {"folder": "titan"})(), 40)
    dcp.save(model.state_dict(), checkpoint_id=path)
    torch.save(model.state_dict(), "model_step_50.pt")
    save_file(model.state_dict(), "weights-60.safetensors")
    """


@pytest.mark.processes
@pytest.mark.shows("torchtitan", "checkpoints")
def test_accelerate_torchtitan_torch_and_safetensors(tmp_path: Path) -> None:
    """One byte that is changed in a tensor is found without reading the pickle."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    (tmp_path / "write.py").write_text(textwrap.dedent(WRITES))
    done = subprocess.run(
        [python, "write.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {
        each.kind: each for each in find_checkpoints([tmp_path]) if not each.path.endswith("safetensors")
    }
    assert {kind: each.step for kind, each in found.items()} == {
        CheckpointKind.ACCELERATE: 30,
        CheckpointKind.TORCHTITAN: 40,
        CheckpointKind.WEIGHTS: 50,
    }
    for each in find_checkpoints([tmp_path]):
        assert (each.incomplete, soundness_of(Path(each.path)).problems) == ("", [])
    weights = tmp_path / "model_step_50.pt"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert "checksum" in soundness_of(weights).problems[0]
