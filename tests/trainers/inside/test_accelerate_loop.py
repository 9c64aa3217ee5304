"""A stop saves in a loop on Accelerate only if the program could resume from what is saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.trainers.inside.accelerate_loop import Loop
from torchdeck.trainers.inside.report import Report


@pytest.fixture(autouse=True)
def _each_step_looks_for_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were a real step, which takes longer than these."""
    monkeypatch.setattr("torchdeck.trainers.inside.stop_agreement.LOOK_INTERVAL", 0.0)


class Program:
    """What a program calls; its Accelerator writes one file per checkpoint.

    Args:
        folder: for checkpoints and the run.
        rank: of this process.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.folder = folder
        self.stop = folder / "stop"
        self.rank = RunLayout(folder / "run").attempt(1).rank(0)
        self.rank.root.mkdir(parents=True)
        self.report = Report(self.rank, stop_file=self.stop)
        self.loop = Loop(self.report)
        self.project_configuration = SimpleNamespace(automatic_checkpoint_naming=False)
        self.ended = False
        state = SimpleNamespace(process_index=rank)
        self._optimizer = Optimizer(SimpleNamespace(sync_gradients=True), state)

    def step(self, *, save: str = "", also: str = "") -> bool:
        """One step, and perhaps a save, with a file of the program's own; whether it is to end."""
        self.loop.stepped(self._optimizer)
        if save:
            self.save_state(str(self.folder / save))
            if also:
                (self.folder / save / also).touch()
        return self.loop.saved_for_stop()

    def save_state(self, output_dir: str) -> None:
        Path(output_dir).mkdir()
        (Path(output_dir) / "model.safetensors").touch()
        self.loop.saved(self, output_dir)

    def end_training(self) -> None:
        self.ended = True

    @property
    def saved(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and path.name != "run")

    @property
    def state(self) -> InsideState:
        found = read_inside_state(self.rank.inside)
        assert found is not None
        return found


class Optimizer(SimpleNamespace):
    """An AcceleratedOptimizer; it can be a key of a dictionary of weak references."""

    def __init__(self, gradients: Any, state: Any) -> None:
        super().__init__(gradient_state=gradients, accelerator_state=state)

    __hash__ = object.__hash__  # type: ignore[assignment]  # SimpleNamespace has none


class Store(dict[str, int]):
    """A process group's store; the other one of two ranks has already answered."""

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def set(self, key: str, value: str) -> None:
        self[key] = int(value)

    def add(self, key: str, more: int) -> int:
        self[key] = self.setdefault(key, 1) + more
        return self[key]


def test_it_saves_as_the_program_did(tmp_path: Path) -> None:
    program = Program(tmp_path)
    assert not program.step()
    assert not program.step(save="checkpoint-2")
    assert program.state == InsideState(trainer="Accelerate", counted=True, saves_on_stop=True)
    program.stop.touch()
    assert program.step()
    assert program.saved == ["checkpoint-2", "checkpoint-3"]
    assert program.ended


def test_steps_continue_from_the_checkpoint_that_was_loaded(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.loop.load(program, str(tmp_path / "checkpoint-100"))
    assert not program.step(save="checkpoint-101")
    program.stop.touch()
    assert program.step()
    assert program.saved == ["checkpoint-101", "checkpoint-102"]


def test_what_the_program_saved_after_the_last_step_is_not_saved_again(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.stop.touch()
    assert program.step(save="checkpoint-1")
    assert program.saved == ["checkpoint-1"]


def test_a_rank_that_does_not_save_itself_ends_as_well(tmp_path: Path) -> None:
    program = Program(tmp_path, rank=1)
    program.stop.touch()
    assert program.step()
    assert program.saved == []


@pytest.mark.parametrize(
    "steps",
    [
        lambda program: program.step(),
        lambda program: (program.step(), program.step(save="epoch-1")),
        lambda program: program.step(save="last"),
        lambda program: program.step(save="checkpoint-1", also="ema.pt"),
    ],
    ids=["no save yet", "named after epochs", "no number", "more than the state"],
)
def test_otherwise_the_program_is_not_asked_to_save(tmp_path: Path, steps: Callable[[Program], Any]) -> None:
    program = Program(tmp_path)
    program.stop.touch()
    steps(program)
    before = program.saved
    assert not program.step()
    assert program.saved == before
    assert not program.state.saves_on_stop


def test_what_the_program_saves_in_the_agreed_last_step_does_not_change_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 that trained on would wait for ranks that have ended."""
    store = Store()
    group = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 0,
        get_world_size=lambda: 2,
        distributed_c10d=SimpleNamespace(_get_default_store=lambda: store),
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    program = Program(tmp_path)
    assert not program.step(save="checkpoint-1")
    program.stop.touch()
    assert not program.step()  # the next step is agreed to be the last one
    assert program.step(save="checkpoint-3", also="ema.pt")
    assert program.saved == ["checkpoint-1", "checkpoint-3"]


def test_a_save_that_fails_at_a_stop_ends_the_program_with_its_error(tmp_path: Path) -> None:
    """The other ranks end as well, so it cannot train on."""
    program = Program(tmp_path)
    assert not program.step(save="checkpoint-1")
    program.stop.touch()
    (tmp_path / "checkpoint-2").mkdir()
    with pytest.raises(SystemExit, match=r"the save at this stop failed .*FileExistsError"):
        program.report.guarded("Accelerate", "stop", program.step)
