"""Previews of a run file while it is edited: what is known is said at once, the rest is traced once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.training.profiled_recipe import RUN, hanging, is_running, write_recipe
from support.values import small_profile
from support.values.run_files import write
from support.waiting import wait_until
from torchdeck.config.loader import LoadedConfig, load_config
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.launching.facts import profiling
from torchdeck.launching.facts.tracing_process import TracingFailedError
from torchdeck.use_cases.previewer import Previewer

BYTE_GPT = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\n[distributed]\ndevices = "cpu"\nnproc = 2\n'


class Tracer:
    """Answers in place of the process."""

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self, *_: Any) -> Mapping[str, Any]:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    made = Tracer(small_profile.profile().to_json())
    monkeypatch.setattr(profiling, "trace_in_process", made)
    return made


def loaded(folder: Path, text: str = BYTE_GPT) -> LoadedConfig:
    return load_config(write(folder, text))


def nothing(_text: str) -> None:
    """Progress that no one wants to hear of."""


def test_a_model_is_traced_once_for_all_previews(tracer: Tracer, home: Path, tmp_path: Path) -> None:
    previewer = Previewer(home)
    first = previewer.preview(loaded(tmp_path))
    assert first.untraced
    assert first.preview is not None
    assert first.preview.memory is None
    assert "estimating memory" in first.preview.notes[-1]
    previewer.trace(loaded(tmp_path), nothing)
    second = previewer.preview(loaded(tmp_path))
    assert (second.untraced, tracer.calls) == ("", 1)
    assert second.preview is not None
    assert second.preview.known.profile is not None
    assert previewer.preview(loaded(tmp_path, BYTE_GPT + "[model]\nwidth = 64\n")).untraced != first.untraced
    assert Previewer(home).preview(loaded(tmp_path)).untraced == "", "it was kept on disk too"
    assert tracer.calls == 1


def test_a_home_that_cannot_be_written_is_no_reason_to_trace_again(tracer: Tracer, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    previewer = Previewer(home)
    previewer.trace(loaded(tmp_path), nothing)
    assert previewer.preview(loaded(tmp_path)).untraced == ""


def test_a_model_that_cannot_be_traced_is_not_tried_for_ever(
    tracer: Tracer, home: Path, tmp_path: Path
) -> None:
    tracer.answer = TracingFailedError("it is odd")
    previewer = Previewer(home)
    previewer.trace(loaded(tmp_path), nothing)
    made = previewer.preview(loaded(tmp_path))
    assert made.untraced == ""
    assert made.preview is not None
    assert made.preview.known.failure == "memory is not predicted: it is odd"
    previewer.look_again()
    assert previewer.preview(loaded(tmp_path)).untraced


def test_what_was_given_up_says_so(tracer: Tracer, home: Path, tmp_path: Path) -> None:
    previewer = Previewer(home)
    previewer.give_up(previewer.preview(loaded(tmp_path)).untraced)
    made = previewer.preview(loaded(tmp_path))
    assert (made.untraced, made.given_up) == ("", True)
    assert made.preview is not None
    assert made.preview.known.failure == "memory is not predicted: tracing the model was cancelled"


def test_code_of_strangers_is_not_run(tracer: Tracer, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    write(folder, "raise SystemExit('it was run')\n", "model.py")
    previewer = Previewer(home)
    made = previewer.preview(loaded(folder, RUN))
    assert made.held is not None
    assert made.held.folder == folder
    assert made.untraced == ""
    assert made.preview is not None
    assert made.preview.known.failure.endswith(f"its folder {folder} is not trusted yet")
    home.mkdir(exist_ok=True)
    previewer.trust(folder)
    trusted = previewer.preview(loaded(folder, RUN))
    assert trusted.held is None
    assert trusted.untraced


def test_problems_with_the_machines_have_a_line(home: Path, tmp_path: Path) -> None:
    made = Previewer(home).preview(loaded(tmp_path, BYTE_GPT.replace('"cpu"', "[77]").replace("2", "1")))
    assert made.preview is None
    (problem,) = made.problems
    assert (problem.path, problem.line) == ("distributed.devices[0]", 6)
    assert "has no GPU 77" in problem.wrong


def test_a_preview_can_be_given_up_between_its_parts(home: Path, tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Previewer(home).preview(loaded(tmp_path), stop)


@pytest.mark.processes
def test_tracing_that_says_nothing_can_be_ended(home: Path, tmp_path: Path) -> None:
    """While the recipe hangs its progress is told again and again; what that raises ends the process."""
    folder, child = tmp_path / "code", tmp_path / "code" / "child"
    write_recipe(folder, *hanging(child))
    home.mkdir(exist_ok=True)
    previewer = Previewer(home)
    previewer.trust(folder)
    told: list[str] = []

    def progress(text: str) -> None:
        told.append(text)
        if told.count("building the model") >= 3 and child.exists() and child.read_text():
            raise KeyboardInterrupt
        if len(told) > 500:
            raise AssertionError(told)

    with pytest.raises(KeyboardInterrupt):
        previewer.trace(loaded(folder, RUN), progress)
    wait_until(lambda: not is_running(int(child.read_text())), 10, "the end of the recipe's own process")


def test_an_interpreter_without_torch_is_a_reason_and_no_error(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = InterpreterFacts("/usr/bin/python3", "3.11.7")
    monkeypatch.setattr("torchdeck.launching.facts.fact_sources.probe_interpreter", lambda *_, **__: bare)
    made = Previewer(home).preview(loaded(tmp_path))
    assert made.untraced == ""
    reasons = [problem.wrong for problem in made.problems]
    if made.preview is not None:
        reasons.append(made.preview.known.failure)
    assert any("torch" in reason for reason in reasons)
