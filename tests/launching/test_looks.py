"""Looks that remember: a machine is not looked at for every letter that is typed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.values.machines import PYTHON, config, node
from torchdeck.contract.inventory import InterpreterFacts, NodeInfo
from torchdeck.launching.facts import fact_sources
from torchdeck.launching.facts.fact_sources import LONG, SHORTLY, CachedFactSources
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe import probing
from torchdeck.nodes.probe.probing import Probed, Question
from torchdeck.trust.trust_list import TrustList


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was looked at, in order."""
    seen: list[str] = []

    def machine(name: str) -> NodeInfo:
        seen.append(f"machine {name}")
        return node(name)

    def interpreter(path: str | None, *, deepspeed: bool) -> InterpreterFacts:
        seen.append(f"interpreter {path} {deepspeed}")
        return PYTHON

    monkeypatch.setattr(fact_sources, "probe_local", machine)
    monkeypatch.setattr(fact_sources, "probe_interpreter", interpreter)
    return seen


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_machine_is_looked_at_again_after_two_seconds(looked: list[str]) -> None:
    clock = Clock()
    remembered = CachedFactSources(clock)
    assert remembered.machine("localhost") is remembered.machine("localhost")
    remembered.machine("other")
    assert looked == ["machine localhost", "machine other"]
    clock.now += SHORTLY
    remembered.machine("localhost")
    assert looked[2:] == ["machine localhost"]
    remembered.forget()
    remembered.machine("localhost")
    assert len(looked) == 4


def test_an_interpreter_is_asked_again_when_its_file_changes(looked: list[str], tmp_path: Path) -> None:
    clock = Clock()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    remembered = CachedFactSources(clock, home=home)
    python = tmp_path / "python"
    python.write_text("one")
    remembered.interpreter(str(python), deepspeed=False)
    assert looked == [], "it is not trusted yet"
    TrustList(home).add(tmp_path)
    for _ in range(2):
        remembered.interpreter(str(python), deepspeed=False)
        clock.now += LONG / 4
    assert len(looked) == 1
    remembered.interpreter(str(python), deepspeed=True)
    os.utime(python, ns=(1, 1))
    remembered.interpreter(str(python), deepspeed=False)
    assert len(looked) == 3
    remembered.interpreter(None, deepspeed=False)
    remembered.interpreter(None, deepspeed=False)
    assert len(looked) == 4


def test_code_that_was_edited_is_seen_shortly_after(tmp_path: Path) -> None:
    clock = Clock()
    remembered = CachedFactSources(clock)
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    asked = config({"script": str(script)})
    before, _ = remembered.code(asked, tmp_path)
    script.write_text("print(2)\n")
    assert remembered.code(asked, tmp_path)[0] == before
    clock.now += SHORTLY
    assert remembered.code(asked, tmp_path)[0] != before


def test_a_batch_plan_whose_files_changed_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def read(*_: object) -> tuple[None, tuple[()]]:
        reads.append(1)
        return None, ()

    monkeypatch.setattr(fact_sources, "read_batch_plan", read)
    remembered = CachedFactSources(Clock())
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "meta.json").write_text("1")
    asked = config({"recipe": "byte-gpt"}, training={"steps": 1, "batch_plan": str(tmp_path / "plan")})
    remembered.batch_plan(asked, None)
    remembered.batch_plan(asked, None)
    assert len(reads) == 1
    (tmp_path / "plan" / "meta.json").write_text("12")
    remembered.batch_plan(asked, None)
    assert len(reads) == 2
    assert remembered.batch_plan(config(), None) == (None, ())


def test_only_so_much_is_remembered(looked: list[str]) -> None:
    remembered = CachedFactSources(Clock())
    for number in range(40):
        remembered.machine(str(number))
    remembered.machine("39")
    remembered.machine("0")
    assert looked[-1] == "machine 0"
    assert len(looked) == 41


def test_nodes_are_not_asked_anew_for_every_letter_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time would be a login to all of them; what their disks have is for checks alone."""
    asked: list[Question] = []

    def probe(
        entries: Mapping[str, object], _connect: object, question: Question, *_: object
    ) -> Iterator[Probed]:
        asked.append(question)
        return (Probed(name, 0.1, error="it is away") for name in entries)

    monkeypatch.setattr(probing, "probe_nodes", probe)
    (tmp_path / "nodes.toml").write_text('version = 1\n[nodes.far]\naddress = "192.0.2.1"\n')
    connector = Connector(tmp_path)
    remembered = CachedFactSources(Clock(), home=tmp_path, connector=connector)
    for folder in ("/d", "/da", "/data"):
        assert set(remembered.nodes(("far",), (), (folder,))) == {"far"}
    assert [question.folders for question in asked] == [()]
    fact_sources.FactSources(tmp_path, connector).nodes(("far",), (), ("/data",))
    assert asked[-1].folders == ("/data",)
