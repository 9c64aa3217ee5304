"""`torchdeck ckpt export` and `convert`, as commands: torch works in real processes."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.deepspeed.deepspeed_jobs import run_jobs
from support.ranks.torch_process import run_torch
from support.system.deepspeed_python import ABSENT, deepspeed_python
from support.values.checkpoint_files import save
from torchdeck.cli.ckpt import ckpt_command
from torchdeck.use_cases.checkpoints.there import ExchangeFailedError, exchange_in_process

pytestmark = pytest.mark.processes

MADE = """
import sys, torch
from torchdeck.distributed import CheckpointManager
model = torch.nn.Linear(4, 3)
with CheckpointManager(sys.argv[1]) as checkpoints:
    checkpoints.save(7, model, torch.optim.SGD(model.parameters()), metrics={"validation_loss": 0.25})
"""


def _run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    ckpt_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["ckpt", *argv])
    code: int = args.handler(args)
    return code


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one checkpoint, of step 7."""
    directory = tmp_path_factory.mktemp("saved")
    made = run_torch(["-c", MADE, str(directory)], limit=120)
    assert made.returncode == 0, made.stderr
    return directory


def test_export_and_convert(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder that was asked for is there, and what was made is said in a line."""
    out = tmp_path / "out"
    assert _run("export", str(saved), "-o", str(out), "--dtype", "bf16") == 0
    assert capsys.readouterr().out.startswith(f"{out}: step 7, ")
    header = (out / "model.safetensors").read_bytes()
    assert json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["weight"]["dtype"] == "BF16"
    one, back = tmp_path / "one", tmp_path / "step_00000007"
    assert _run("convert", str(saved / "step_00000007"), str(one), "--to", "single") == 0
    assert _run("convert", str(one), str(back), "--to", "sharded", "--ranks", "2") == 0
    assert _run("verify", str(back)) == 0
    assert capsys.readouterr().out.endswith("step_00000007: sound\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "SAVED", "8", "-o", "OUT"], "there is no checkpoint step_00000008"),
        (["export", "SAVED", "-o", "OUT", "--max-shard-size", "many"], "--max-shard-size: "),
        (["export", "SAVED", "-o", "OUT", "--max-shard-size", "0B"], "--max-shard-size is 0"),
        (["convert", "SAVED/none", "OUT", "--to", "single"], "there is no "),
        (["convert", "SAVED", "OUT", "--to", "sharded", "--ranks", "0"], "--ranks is 0"),
        (["convert", "SAVED", "OUT", "--to", "single", "--ranks", "2"], "--ranks goes with --to sharded"),
    ],
)
def test_usage_errors_exit_with_2(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Nothing is started for what cannot be right."""
    given = [text.replace("SAVED", str(saved)).replace("OUT", str(tmp_path / "out")) for text in arguments]
    assert _run(*given) == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_done_exits_with_1(tmp_path: Path) -> None:
    """The process's sentence is the command's; nothing is left, and torch was never imported here."""
    folder = save(tmp_path, 10)  # a manifest that fits, and no tensors
    code = (
        "import argparse, sys; from torchdeck.cli.ckpt import ckpt_command as ckpt; "
        "p = argparse.ArgumentParser()\n"
        "ckpt.add_parser(p.add_subparsers()); a = p.parse_args(['ckpt', 'export', *sys.argv[1:]])\n"
        "print(a.handler(a), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1 False\n"
    last, page = done.stderr.splitlines()[-2:]
    assert last.startswith("torchdeck ckpt export: ")
    assert page == "help: torchdeck docs checkpoints#inspect-verify-convert"
    assert "trainer.json is not a checkpoint's trainer state" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000010"]


def test_an_interpreter_without_torch_is_said(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to do stands in the sentence; an interpreter that is none is one too."""
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')  # type: ignore[attr-defined]
    bare.chmod(0o700)
    assert _run("export", str(saved), "-o", str(tmp_path / "out"), "--python", str(bare)) == 1
    assert "there is no torch in " in capsys.readouterr().err
    assert _run("export", str(saved), "-o", str(tmp_path / "out"), "--python", str(tmp_path / "none")) == 1
    assert "could not be started: No such file" in capsys.readouterr().err


def test_a_process_that_says_nothing_or_dies_is_ended(tmp_path: Path) -> None:
    """There is no limit for work that continues, only for silence."""
    for name, body, silence, said in (
        ("silent", "exec sleep 60", 0.3, "no output for 0.3 s"),
        ("dying", "echo broken >&2; exit 3", 30.0, "exit code 3: broken"),
        ("odd", "echo hello", 30.0, "which is no answer"),
    ):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o700)
        with pytest.raises(ExchangeFailedError, match=said):
            exchange_in_process({}, str(program), print, silence=silence)


@pytest.mark.soak
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
def test_a_folder_of_deepspeeds_becomes_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is trusted, by the interpreter that has DeepSpeed; its weights are those of the engine."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    theirs, made, out = tmp_path / "theirs", tmp_path / "made", tmp_path / "out"
    job = {"do": "save_as_deepspeed", "world_size": 2, "precision": "fp32", "to": str(theirs)}
    ((saved, _),) = run_jobs([{**job, "deepspeed": {"zero_stage": 2}}])
    convert = ["convert", str(theirs), str(made), "--to", "sharded", "--python", str(deepspeed_python())]
    assert _run(*convert) == 1
    assert "--trust" in capsys.readouterr().err
    assert _run(*convert, "--trust") == 0
    assert "weights only" in capsys.readouterr().out
    assert _run("export", str(made), "-o", str(out)) == 0
    header = (out / "model.safetensors").read_bytes()
    tensors = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    assert tensors.keys() - {"__metadata__"} == saved.keys()
