"""A node's command as text."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.values import machines
from torchdeck_app.launch.preview.command_text import (
    HIDDEN,
    Kind,
    command_line,
    is_secret,
    node_lines,
    plain,
)


def test_all_of_argv_is_there_in_order() -> None:
    asked = machines.config(
        {"script": "/code/train.py", "args": ["--name", "two words", "", "@{port}"]}, distributed={"nproc": 2}
    )
    plan = machines.plan(asked)
    (node,) = plan.nodes
    lines = node_lines(plan, node)
    text = plain(lines)
    between = text.split("\n\n")[1]
    assert shlex.split(between.replace("\n", " ")) == [word.replace("@@{", "@{") for word in node.argv]


@pytest.mark.processes
def test_a_copied_command_runs_as_it_is_pasted(tmp_path: Path) -> None:
    """In the folder and with the environment of the plan."""
    (tmp_path / "show.py").write_text(
        "import os; print(os.getcwd(), os.environ['RANK'], os.environ['MODE'])\n"
    )
    asked = machines.config(
        {"script": str(tmp_path / "show.py"), "env": {"MODE": "two words"}, "working_dir": str(tmp_path)},
        distributed={"nproc": 1},
    )
    plan = machines.plan(asked)
    (node,) = plan.nodes
    environment = {**os.environ, "PYTHON": sys.executable, "RUN_DIR": str(tmp_path / "run")}
    pasted = ["sh", "-c", command_line(plan, node)]
    done = subprocess.run(pasted, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path} 0 two words\n"


def test_slots_are_told_apart_and_explained() -> None:
    plan = machines.plan()
    pieces = [piece for line in node_lines(plan, plan.nodes[0]) for piece in line]
    slots = {piece.text: piece.tip for piece in pieces if piece.kind is Kind.SLOT}
    assert slots == {f"@{{{name}}}": filler for name, filler in plan.slots.items()}


def test_values_of_secrets_are_not_shown() -> None:
    asked = machines.config(
        {"script": "/code/train.py", "env": {"HF_TOKEN": "hf_abc", "MODE": "fast", "aws_secret": "xyz"}}
    )
    plan = machines.plan(asked)
    node = dataclasses.replace(plan.nodes[0], secrets=("WANDB_API_KEY",))
    text = plain(node_lines(plan, node))
    assert f"HF_TOKEN={HIDDEN}" in text
    assert f"WANDB_API_KEY={HIDDEN}" in text
    assert "MODE=fast" in text
    assert "hf_abc" not in text
    assert "xyz" not in text


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "api_key", "KEY", "DB_PASSWORD"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["MONKEY", "TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "KEYBOARD"])
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_a_value_of_several_lines_stays_in_one() -> None:
    asked = machines.config({"script": "/code/train.py", "env": {"TEXT": "a\nb"}})
    plan = machines.plan(asked)
    assert "TEXT='a\\nb'" in plain(node_lines(plan, plan.nodes[0])).splitlines()


def test_the_folder_goes_on_with_the_comment_it_ends() -> None:
    """It is no word of the command; what is filled in later stays told apart."""
    plan = machines.plan()
    first, folder, *_ = node_lines(plan, dataclasses.replace(plan.nodes[0], working_dir="/code/@{run_id}"))
    assert first[0].text.endswith("executes in")
    assert [(piece.text, piece.kind) for piece in folder] == [
        ("#   ", Kind.COMMENT),
        ("/code/", Kind.COMMENT),
        ("@{run_id}", Kind.SLOT),
    ]
