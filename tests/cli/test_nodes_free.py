"""`torchdeck nodes free` prints free GPUs, and the options with which a run takes some."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pytest

from torchdeck.cli.nodes import free
from torchdeck.nodes.free_gpus import FreeGpu, FreeNode
from torchdeck.use_cases.nodes import free_gpus
from torchdeck.use_cases.nodes.free_gpus import FoundGpus


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHDECK_HOME", str(tmp_path / "home"))
    nodes = tuple(FreeNode(name, tuple(FreeGpu(index, "H100") for index in (2, 3))) for name in ("a", "b"))
    monkeypatch.setattr(free_gpus, "find_free_gpus", lambda *_: FoundGpus(nodes, ("c: no route",), 0.0))


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    free.add_parser(parser.add_subparsers())
    args = parser.parse_args(["free", *arguments])
    code: int = args.handler(args)
    return code


def test_what_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert capsys.readouterr().out == "a  H100  2, 3\nb  H100  2, 3\nnot asked: c: no route\n"
    assert call("--gpu", "A100") == 0
    assert "no GPU is free" in capsys.readouterr().out


def test_options_that_take_them(capsys: pytest.CaptureFixture[str]) -> None:
    """As a shell gives them on."""
    assert call("4") == 0
    words = shlex.split(capsys.readouterr().out)
    assert words == ["--set", 'distributed.nodes=["a", "b"]', "--set", "distributed.devices=[2, 3]"]
    assert call("4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["take"] == {"nodes": ["a", "b"], "devices": [2, 3]}


def test_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("3") == 3
    assert call("2", "--gpu", "A100") == 3
    assert "not 2 free A100 GPUs" in capsys.readouterr().out
