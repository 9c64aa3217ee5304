"""What the arguments of programs say: output folders, and totals where these are certain."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from torchdeck.trainers.arguments import Arguments, read_arguments

HERE = Path("/project")
LINES = {
    "train.py --output_dir out --max_steps 100": (["out"], 100),
    "train.py --output_dir=/data/out --max_steps=-1 --num_train_epochs 3": (["/data/out"], None),
    "train.py --default_root_dir logs --max_epochs 2": (["logs"], None),
    "-m torchtitan.train --module llama3 --job.dump_folder ./outputs --training.steps 10": (["outputs"], 10),
    "-m torchtitan.train --dump-folder outputs": (["outputs"], None),
    "-m verl.trainer.sft_trainer trainer.default_local_dir=ckpt trainer.total_training_steps=40": (
        ["ckpt"],
        40,
    ),
    "train.py +trainer.max_steps=7 hydra.run.dir=runs/1": (["runs/1"], 7),
    "pretrain_gpt.py --train-iters 500 --save /ckpt --tensorboard-dir tb": (["tb"], 500),
    "train.py --out_dir=out --max_iters=5000": (["out"], 5000),
    "train_text_to_image.py --max_train_steps 15 --logging_dir logs --output_dir sd": (["logs", "sd"], 15),
    "train.py --steps 4 --max_steps x --verbose --output_dir": ([], None),
    "train.py": ([], None),
    "train.py --max_iters 4000 --out-dir a --max-iters=8000 --out_dir b": (["b"], 8000),
    "train.py trainer.max_steps=7 +trainer.max_steps=9": ([], 9),
}


def read(line: str, folder: Path = HERE, **environment: str) -> Arguments:
    """Of a command as a rank has it."""
    return read_arguments(["/usr/bin/python3", "-u", *shlex.split(line)], folder, environment)


@pytest.mark.parametrize("line", list(LINES))
def test_a_command_line(line: str) -> None:
    """Flags with and without =, dashes, groups, Hydra's."""
    folders, total = LINES[line]
    found = read(line)
    assert list(found.folders) == [HERE / folder for folder in folders]
    assert found.total == total


def test_the_origin_of_a_total_is_named(tmp_path: Path) -> None:
    """The flag, or the key and its file."""
    (tmp_path / "sft.yaml").write_text("train:\n  max_steps: 30  # few\n  output_dir: 'results'\n")
    assert read("train.py --max_steps 100").total_origin == "--max_steps"
    found = read("train.py --config sft.yaml", tmp_path)
    assert found == Arguments((tmp_path / "results",), 30, "max_steps in sft.yaml")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "output_dir: out/x\nmax_steps: 12\nmodel:\n  hidden: 4\n"),
        ("a.json", '{"output_dir": "out/x", "training": {"steps": 12}, "list": [1]}'),
        ("a.toml", '[job]\ndump_folder = "out/x"\n[training]\nsteps = 12\n'),
        ("a.py", "# nanoGPT's\nout_dir = 'out/x'\nmax_iters = 12  # iterations\n"),
    ],
)
def test_a_config(tmp_path: Path, name: str, text: str) -> None:
    """Named on the command line, after the program."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / name).write_text(text)
    found = read(f"train.py configs/{name} --other 1", tmp_path)
    assert (found.folders, found.total) == ((tmp_path / "out/x",), 12)
    assert read(f"train.py configs/{name} --max_steps=7", tmp_path).total == 7


def test_the_last_config_of_a_repeated_flag_counts(tmp_path: Path) -> None:
    """Of two files, each named by --config."""
    for steps in (4, 8):
        (tmp_path / f"{steps}.yaml").write_text(f"max_steps: {steps}\n")
    assert read("train.py --config 4.yaml --config 8.yaml", tmp_path).total == 8
    assert read("train.py --config=8.yaml --config=4.yaml", tmp_path).total == 4


def test_variables() -> None:
    """Those that loggers read; a server is no folder."""
    found = read(
        "x.py", TENSORBOARD_DIR="tb", MLFLOW_TRACKING_URI="file:/ml", VERL_FILE_LOGGER_PATH="v/log.jsonl"
    )
    assert found.folders == (HERE / "tb", Path("/ml"), HERE / "v")
    assert read("x.py", MLFLOW_TRACKING_URI="http://host:5000").folders == ()


def test_the_checkpoint_to_continue_from() -> None:
    """A path; `latest` is none."""
    assert read("x.py --resume_from_checkpoint out/checkpoint-8").checkpoint == HERE / "out/checkpoint-8"
    assert read("x.py --resume_from_checkpoint latest").checkpoint is None
