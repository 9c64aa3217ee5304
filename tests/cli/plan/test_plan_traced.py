"""`torchdeck plan` with the model traced: what is predicted, and that it is kept."""

import argparse
import json
import os
import re
import signal
from pathlib import Path

import pytest

from support.cli.command import Command
from support.cli.typing_at import Typing
from support.training.profiled_recipe import is_running
from support.waiting import wait_until
from torchdeck.agent.doctor.proc import tree
from torchdeck.cli.check import add_parser as add_check
from torchdeck.cli.plan import plan_command
from torchdeck.contract.plan.prediction import Prediction

RUN = """\
[run]
recipe = "byte-gpt"
[model]
layers = 1
heads = 1
width = 16
context = 16
[data]
max_bytes = 20000
heldout = 0.1
[training]
epochs = 1
microbatch = 4
[distributed]
strategy = "fsdp"
nproc = 2
devices = "cpu"
"""


def command(*words: str) -> int:
    """The command, as the command line would call it."""
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    plan_command.add_parser(subparsers)
    add_check(subparsers)
    args = parser.parse_args(words)
    return int(args.handler(args))


@pytest.mark.processes
def test_the_model_is_traced_once_and_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time says what it waits for; then memory, data and traffic are there at once."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN)
    assert command("plan", "run.toml", "--json") == 0
    first = capsys.readouterr()
    said = first.err.splitlines()
    assert said[0] == "torchdeck: tracing the model"
    assert all(line.startswith("torchdeck: still tracing the model") for line in said[1:])  # a busy machine
    printed = json.loads(first.out)
    prediction = Prediction.from_json(printed["prediction"])
    assert prediction.source == "traced"
    assert {memory.verdict for memory in prediction.memory} == {"fits"}
    assert prediction.data is not None
    assert sum(counts.samples * (counts.last - counts.first + 1) for counts in prediction.data.ranks) == (
        prediction.data.size
    )
    assert printed["preview"]["communication"]["sent"] > 0
    assert command("plan", "run.toml") == 0
    again = capsys.readouterr()
    assert again.err == ""
    for words in ("✓ fits: ", "Memory per rank", "Communication", "seeded order over"):
        assert words in again.out, words
    assert command("plan", "run.toml", "--compare", "ddp,hsdp,zero3,single") == 0
    compared = capsys.readouterr().out
    assert "hsdp 2 × 1" in compared
    assert "single is one rank, and there are 2" in compared
    assert command("plan", "run.toml", "--compare", "single") == 0
    assert "fits" not in capsys.readouterr().out
    assert command("plan", "run.toml", "--rank", "1") == 0
    assert "embedding.weight" in capsys.readouterr().out
    assert command("check", "run.toml") == 0
    assert "at the peak" in capsys.readouterr().out


def test_a_recipe_that_is_not_trusted_is_planned_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is not run; the plan says why memory is missing and what would help."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("raise SystemExit('it was run')\n")
    Path("run.toml").write_text('[run]\nrecipe = "mine.py"\n[training]\nsteps = 1\n')
    assert command("plan", "run.toml") == 0
    shown = capsys.readouterr()
    assert "--trust" in shown.err
    assert "it was run" not in shown.out + shown.err


@pytest.mark.processes
def test_a_model_that_cannot_be_traced_is_planned_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model file that needs what only ranks may have: a note with the reason."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("raise RuntimeError('no such layer without a GPU')\n")
    Path("run.toml").write_text('[run]\nrecipe = "mine.py"\n[training]\nsteps = 1\n')
    assert command("plan", "run.toml", "--trust") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "memory is not predicted" in shown
    assert "no such layer" in shown


def test_without_a_prediction_nothing_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """limits.memory = "off" starts no process and says so."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN + '[limits]\nmemory = "off"\n')
    assert command("plan", "run.toml") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert 'limits.memory is "off"' in shown.out


def test_a_model_is_estimated_from_a_few_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script on machines that are only described: labelled as an estimate."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(
        '[run]\nscript = "train.py"\n[estimate]\nparameters = 7e9\nlayers = 32\nwidth = 4096\n'
        '[distributed]\nstrategy = "fsdp"\n'
        '[[cluster.nodes]]\nname = "gpu[0-3]"\ngpus = 8\ngpu = "H100"\n'
    )
    assert command("plan", "run.toml") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "(estimated)" in shown.out
    assert "32 ranks on 4 nodes, fsdp assumed over nccl" in shown.out
    assert "warning script" in shown.out


@pytest.mark.processes
def test_a_model_of_1024_layers_says_what_is_counted_and_ctrl_c_ends_it(
    tmp_path: Path, torchdeck_home: Path
) -> None:
    """It takes minutes. The count grows, and nothing of the interrupted tracing is left."""
    run_file = tmp_path / "run.toml"
    small = "layers = 1\nheads = 1\nwidth = 16\n"
    assert small in RUN
    run_file.write_text(RUN.replace(small, "layers = 1024\nheads = 64\nwidth = 65536\n"))
    counted = re.compile(r"tracing the model: building the model: module ([\d,]+)")
    with Typing(Command(torchdeck_home), {}, "plan", run_file) as terminal:
        wait_until(lambda: len(set(counted.findall(terminal.seen))) > 1, 120, "a count that grows")
        started = tree(terminal.pid)[1:]
        assert started
        os.killpg(terminal.pid, signal.SIGINT)
        assert terminal.wait(30) == 130
    assert "torchdeck: interrupted" in terminal.seen
    wait_until(lambda: not any(map(is_running, started)), 20, "the end of the tracing process")
    assert not (torchdeck_home / "profiles").exists()


@pytest.mark.processes
@pytest.mark.soak  # tests/launching/facts/test_tracing_process.py refuses one too
def test_a_recipe_that_raises_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check fails with what was raised; the plan has it at the top, once, and the rest below."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("import there_is_no_such_module\n")
    Path("run.toml").write_text(
        '[run]\nrecipe = "mine.py"\n[training]\nsteps = 1\n[distributed]\ndevices = "cpu"\n'
    )
    assert command("plan", "run.toml", "--trust") == 3
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("✕ the recipe fails: ") == said.count("No module named") == 1
    assert "global batch" in said
    assert command("check", "run.toml") == 3
    (failed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed")]
    assert "the recipe fails: recipe file" in failed
    assert "No module named 'there_is_no_such_module'" in failed


@pytest.mark.processes
@pytest.mark.soak  # the first compares them, too
def test_strategies_have_a_verdict_each_and_none_in_common(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be with so many ranks is not said to fit, whatever the run's own strategy does."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN)
    assert command("plan", "run.toml", "--compare", "single") == 0
    shown = capsys.readouterr().out
    assert "single is one rank, and there are 2" in shown
    assert "fits" not in shown
    assert command("plan", "run.toml", "--compare", "single,ddp,zero1") == 0
    assert capsys.readouterr().out.count("✓ fits") == 2
