"""Weights of folders that DeepSpeed wrote: real ones where trusted, and none where not."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from support.deepspeed.deepspeed_jobs import run_jobs
from support.ranks.torch_process import run_torch
from support.system.deepspeed_python import ABSENT, deepspeed_environment, deepspeed_python
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.strategies.deepspeed.tensors import is_deepspeed, read_deepspeed

STEP = "global_step1"


class Evil:
    """Creates a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self._mark,)


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A folder like DeepSpeed's, that runs code where it is read."""
    folder = tmp_path / "theirs" / STEP
    folder.mkdir(parents=True)
    (folder.parent / "latest").write_text(STEP)
    (folder / "mp_rank_00_model_states.pt").write_bytes(pickle.dumps(Evil(tmp_path / "owned")))
    return folder.parent


@pytest.mark.parametrize("inner", [".", STEP])
def test_an_untrusted_folder_is_not_read(strangers: Path, inner: str, tmp_path: Path) -> None:
    """Said what it is and where it lies, and nothing in it was executed."""
    with pytest.raises(CheckpointError, match=r"Python pickles, which can run any code .* --trust") as caught:
        read_deepspeed(strangers / inner, trusted=False)
    assert str(strangers) in str(caught.value)
    assert not (tmp_path / "owned").exists()


def test_other_folders_are_none_of_deepspeeds(tmp_path: Path) -> None:
    """Whatever was said about trust."""
    assert not is_deepspeed(tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint of DeepSpeed's"):
        read_deepspeed(tmp_path, trusted=True)


@pytest.mark.processes
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
def test_weights_of_real_folders(tmp_path: Path) -> None:
    """What engines of all stages saved on two ranks, whole, in fp32 and by the model's own names."""
    jobs = [
        {"do": "save_as_deepspeed", "world_size": 2, "deepspeed": {"zero_stage": stage},
         "precision": precision, "to": str(tmp_path / f"{stage}-{precision}")}
        for stage, precision in ((1, "fp32"), (2, "bf16"), (3, "fp32"))
    ]  # fmt: skip
    saved = [ranks[0] for ranks in run_jobs(jobs)]
    read = _read([job["to"] for job in jobs])
    for folder, sums, found in zip(jobs, saved, read, strict=True):
        assert found == {name: ["torch.float32", *rest] for name, (_, *rest) in sums.items()}, folder


def _read(folders: list[Any]) -> list[dict[str, Any]]:
    code = (
        "import json, sys; from pathlib import Path; from support.deepspeed.deepspeed_jobs import digest; "
        "from torchdeck.distributed.strategies.deepspeed.tensors import read_deepspeed as read; "
        "print(json.dumps([digest(read(Path(folder), trusted=True)) for folder in sys.argv[1:]]))"
    )
    python: Any = deepspeed_python()
    done = run_torch(["-c", code, *folders], env=deepspeed_environment(), python=python, limit=120)
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)  # nothing of DeepSpeed's own on stdout
    return found


@pytest.mark.processes
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    """With a sentence, not with whatever DeepSpeed's code stumbles over."""
    folder = tmp_path / STEP
    folder.mkdir()
    torch.save({}, folder / "mp_rank_00_model_states.pt")
    code = (
        "import sys; from pathlib import Path; "
        "from torchdeck.distributed.strategies.deepspeed.tensors import *\n"
        "try: read_deepspeed(Path(sys.argv[1]), trusted=True)\n"
        "except CheckpointError as error: print(error)"
    )
    python: Any = deepspeed_python()
    for place, words in ((tmp_path, "no file latest"), (folder, "cannot be read")):
        argv = ["-c", code, str(place)]
        done = run_torch(argv, env=deepspeed_environment(), python=python, limit=120)
        assert words in done.stdout, done.stdout + done.stderr[-2000:]
