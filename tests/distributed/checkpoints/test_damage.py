"""Damage of a real checkpoint, at any place, is found before anything of it is used."""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from support.values.checkpoint_files import flip
from torchdeck.cli.ckpt import ckpt_command
from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed import CheckpointManager, auto_resume, find_latest_checkpoint
from torchdeck.distributed.checkpoints.checkpoint_loading import load_all
from torchdeck.distributed.checkpoints.resuming import peers_of, train_state
from torchdeck.distributed.exchange import exchanging

FLIPS = 200


class Damaged:
    """A directory with a sound checkpoint of step 1 and one of step 2 that gets damaged."""

    def __init__(self, directory: Path) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.directory = directory
        self.folder = directory / "step_00000002"
        with CheckpointManager(directory) as checkpoints:
            for step in (1, 2):
                torch.autograd.backward(self.model(torch.randn(2, 5)).sum())
                self.optimizer.step()
                checkpoints.save(step, self.model, self.optimizer)
        split = directory / "split"  # two files of tensors, as two ranks would write
        exchanging.to_sharded(
            self.folder, split, parts=2, trusted=False, force=False, progress=lambda *_: None
        )
        shutil.rmtree(self.folder)
        split.rename(self.folder)
        self.content = {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def restore(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        for name, content in self.content.items():
            (self.folder / name).write_bytes(content)

    def refused(self) -> str:
        """What is wrong, having seen that everybody refuses it and nothing was loaded."""
        before = [value.clone() for value in self.model.state_dict().values()]
        with pytest.raises(CheckpointError):
            load_all(self.folder, train_state(self.model, self.optimizer, None), peers_of(None, 10.0))
        with pytest.raises(CheckpointError):
            choose_checkpoint(self.directory, str(self.folder))
        assert all(torch.equal(*pair) for pair in zip(before, self.model.state_dict().values(), strict=True))
        problems = verify(self.folder)
        assert problems
        return problems[0]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """Saved once: every test restores what it changes."""
    return Damaged(tmp_path_factory.mktemp("damaged"))


@pytest.fixture
def checkpoint(damaged: Damaged) -> Iterator[Damaged]:
    """As it was saved, before and after."""
    yield damaged
    damaged.restore()
    assert verify(damaged.folder) == []


def _verify_command(folder: Path) -> int:
    parser = argparse.ArgumentParser()
    ckpt_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["ckpt", "verify", str(folder)])
    code: int = args.handler(args)
    return code


@pytest.mark.long
def test_a_byte_flipped_anywhere_is_refused(checkpoint: Damaged, capsys: pytest.CaptureFixture[str]) -> None:
    """200 places over all files, drawn once and for all: the file is named, `auto` goes to the one before."""
    draw = random.Random(4)  # noqa: S311 - places, not secrets
    names = sorted(checkpoint.content)
    assert len([name for name in names if name.endswith(".distcp")]) == 2
    for number in range(FLIPS):
        name = names[number % len(names)]
        offset, mask = draw.randrange(len(checkpoint.content[name])), draw.randrange(1, 256)
        flip(checkpoint.folder / name, offset, mask)
        assert name in checkpoint.refused(), (name, offset, mask)
        assert find_latest_checkpoint(checkpoint.directory) == checkpoint.directory / "step_00000001"
        assert _verify_command(checkpoint.folder) == 1
        assert f"{name} is damaged" in capsys.readouterr().out
        flip(checkpoint.folder / name, offset, mask)
    loaded = auto_resume(checkpoint.directory, checkpoint.model, checkpoint.optimizer)
    assert loaded is not None
    assert loaded.step == 2


@pytest.mark.parametrize("how", ["empty", "half", "one byte less", "one byte more", "gone"])
def test_a_file_of_another_length_is_refused(checkpoint: Damaged, how: str) -> None:
    """Each file, the manifest too."""
    for name, content in checkpoint.content.items():
        path = checkpoint.folder / name
        cut = {"empty": b"", "half": content[: len(content) // 2], "one byte less": content[:-1]}
        path.unlink() if how == "gone" else path.write_bytes(cut.get(how, content + b"\0"))
        assert name in checkpoint.refused()
        path.write_bytes(content)


def test_files_that_changed_places_are_refused(checkpoint: Damaged) -> None:
    """Each is sound in itself, and not where it belongs."""
    for one, other in (("__0_0.distcp", "__1_0.distcp"), ("trainer.json", "rank_00000.pt")):
        (checkpoint.folder / one).write_bytes(checkpoint.content[other])
        (checkpoint.folder / other).write_bytes(checkpoint.content[one])
        wrong = checkpoint.refused()
        assert one in wrong or other in wrong
        checkpoint.restore()


def test_files_of_another_save_are_refused(checkpoint: Damaged) -> None:
    """A manifest of the step before, and a file of it."""
    for name in (MANIFEST_NAME, "trainer.json"):
        shutil.copy(checkpoint.directory / "step_00000001" / name, checkpoint.folder / name)
        checkpoint.refused()
        checkpoint.restore()


def test_an_edited_manifest_is_refused(checkpoint: Damaged) -> None:
    """Whatever is changed in its text without its own hash."""
    content = checkpoint.content[MANIFEST_NAME]
    for old, new in ((b'"step": 2', b'"step": 3'), (b'"world_size": 1', b'"world_size": 2'), (b"\n}", b"}")):
        assert old in content
        (checkpoint.folder / MANIFEST_NAME).write_bytes(content.replace(old, new))
        assert "edited" in checkpoint.refused()
