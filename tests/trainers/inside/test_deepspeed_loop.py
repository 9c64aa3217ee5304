"""A stop saves in a loop on DeepSpeed only if the program could resume from what is saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.trainers.inside.deepspeed import Loop
from torchdeck.trainers.inside.report import Report


class Engine:
    """An engine that writes one file per checkpoint, and the loop that follows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop = folder / "stop"
        self.rank = RunLayout(folder / "run").attempt(1).rank(0)
        self.rank.root.mkdir(parents=True)
        self.loop = Loop(Report(self.rank, stop_file=self.stop))
        self.global_steps = self.global_rank = 0
        self.training = True

    def forward(self) -> bool:
        """Whether it ends the program."""
        return self.loop.saved_for_stop(self)

    def step(self) -> None:
        self.global_steps += 1
        self.loop.stepped(self)

    def save_checkpoint(self, save_dir: str, tag: str | None = None, **more: Any) -> None:
        tag = tag or f"global_step{self.global_steps}"
        path = Path(save_dir, tag)
        path.mkdir(parents=True)
        (path / "mp_rank_00_model_states.pt").touch()
        (Path(save_dir) / "latest").write_text(tag)
        self.loop.saved(self, save_dir, tag, **more)

    @property
    def saved(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "out").glob("*step*"))

    @property
    def state(self) -> InsideState:
        found = read_inside_state(self.rank.inside)
        assert found is not None
        return found


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: True))
    # steps of this test take microseconds
    monkeypatch.setattr("torchdeck.trainers.inside.stop_agreement.LOOK_INTERVAL", 0.0)
    return Engine(tmp_path)


def out(engine: Engine) -> str:
    return str(engine.folder / "out")


def test_it_saves_where_the_program_did(engine: Engine) -> None:
    engine.step()
    engine.save_checkpoint(out(engine))
    assert not engine.forward()
    assert engine.state == InsideState(trainer="DeepSpeed", saves_on_stop=True)
    engine.stop.touch()
    engine.step()
    assert engine.forward()
    assert engine.saved == ["global_step1", "global_step2"]


def test_what_the_program_saved_after_the_last_step_is_not_saved_again(engine: Engine) -> None:
    engine.stop.touch()
    engine.step()
    engine.save_checkpoint(out(engine))
    assert engine.forward()
    assert engine.saved == ["global_step1"]


def test_an_evaluation_and_the_rest_of_an_accumulation_do_not_end_the_program(engine: Engine) -> None:
    engine.step()
    engine.save_checkpoint(out(engine))
    assert not engine.forward()
    engine.stop.touch()
    assert not engine.forward()
    engine.step()
    engine.training = False
    assert not engine.forward()
    engine.training = True
    assert engine.forward()


def also_in_it(engine: Engine) -> None:
    engine.save_checkpoint(out(engine))
    Path(out(engine), "global_step1", "random.pt").touch()


def not_the_latest(engine: Engine) -> None:
    engine.save_checkpoint(out(engine))
    Path(out(engine), "latest").unlink()


@pytest.mark.parametrize(
    "save",
    [
        lambda _: None,
        lambda engine: engine.save_checkpoint(out(engine), "step-of-mine"),
        lambda engine: engine.save_checkpoint(out(engine), client_state={"epoch": 1}),
        lambda engine: (
            engine.save_checkpoint(out(engine)),
            engine.loop.stepped(Engine(engine.folder / "b")),
        ),
        also_in_it,
        not_the_latest,
    ],
    ids=["no save yet", "a name of its own", "client state", "two engines", "more files", "not the latest"],
)
def test_otherwise_the_program_is_not_asked_to_save(engine: Engine, save: Callable[[Engine], Any]) -> None:
    engine.stop.touch()
    engine.step()
    save(engine)
    before = engine.saved
    assert not engine.forward()
    assert engine.saved == before
    assert not engine.state.saves_on_stop
