"""Hostile answers of a node's Python, and hostile questions to it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.links.saying_process import SayingProcess
from torchdeck.agent.probe import answer
from torchdeck.agent.probe.runs import is_supervised, is_supervised_anywhere
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.nodes.probe.facts import NodeFacts, facts_from, interpreter_facts, node_info
from torchdeck.nodes.probe.monitoring import sample_from
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.nodes.probe.remote_files import RemoteFiles

FACTS = {
    "v": 1,
    "time": 1e9,
    "home": "/home/u",
    "system": {"host": "h", "os": "o", "kernel": "k", "machine": "m", "boot": "b", "user": "u"},
    "cpu": {"cores": 4, "usable": 4, "model": "m", "load": 0.5, "bf16": ["x"]},
    "memory": {"total": 9, "free": 8, "shm_total": 7, "shm_free": 6},
    "disks": [{"path": "/", "there": True, "writable": True, "total": 9, "free": 8}],
    "gpu": {
        "devices": [
            {
                "index": 0,
                "uuid": "u",
                "name": "n",
                "memory": 9,
                "free": None,
                "users": [{"pid": 1, "memory": 2}],
            }
        ],
        "driver": "1",
        "cuda": "12",
        "error": "",
    },
    "pythons": [
        {
            "executable": "/usr/bin/python3",
            "version": "3.11",
            "torch": "2.10",
            "numpy": "2",
            "deepspeed": None,
            "nccl": None,
            "cuda": None,
            "error": "",
            "chosen": True,
            "deep": {"error": "", "devices": 0},
        }
    ],
    "interfaces": [{"name": "lo", "addresses": ["127.0.0.1"], "up": True, "speed": None}],
    "routes": [{"peer": "p", "interface": "lo", "address": "127.0.0.1", "error": ""}],
    "own_name": {"name": "n", "resolves": True, "slow": False, "seconds": 0.1, "error": ""},
    "runs": [
        {"run_id": "r", "directory": "/d", "processes": [1], "ranks": [0], "user": "u", "supervised": True}
    ],
    "kills_after_logout": False,
}
SAMPLE = {
    "v": 1,
    "time": 1e9,
    "values": {"cpu": 0.5},
    "load": [0.1, 0.2, 0.3],
    "owners": {"0": {"run_id": "r", "name": "n"}},
    "runs": None,
}
OTHERS = (
    {"v": 1, "time": 1e9},
    {"v": 1, "error": "x"},
    {"v": 1, "folder": "/runs", "runs": ["20261121T034455Z-gpt-0a1b2c"]},
    {"v": 1, "files": [["a/b", 3, 4]], "links": 0, "cut": False},
    {"v": 1, "size": 3, "data": "YWJj"},
)
QUESTIONS = (
    {"ask": "time"},
    {"ask": "owners", "home": "/nowhere", "devices": ["0", "1"]},
    {"ask": "runs", "home": "/nowhere"},
    {"ask": "tree", "folder": "/nowhere", "without": ["x"]},
    {"ask": "read", "path": "/nowhere", "at": 0, "size": 3},
    {"ask": "checkpoint_problems", "path": "/nowhere"},
    {"ask": "seen", "paths": ["/nowhere"]},
)


def read_answer(case: bytes, _place: Path) -> None:
    """Asked for everything; it may only raise what is documented."""
    asked: tuple[Callable[[ProbeSession], object], ...] = (
        lambda probe_session: facts_from("n", probe_session.ask(ProbeRequest.FACTS, 1.0)),
        lambda probe_session: sample_from("n", probe_session.ask(ProbeRequest.SAMPLE, 1.0)),
        lambda probe_session: probe_session.clock(1.0).seconds,
        lambda probe_session: RemoteFiles(probe_session, "n").runs(None),
        lambda probe_session: RemoteFiles(probe_session, "n").tree("/x"),
        lambda probe_session: RemoteFiles(probe_session, "n").content("/x", 10),
        lambda probe_session: RemoteFiles(probe_session, "n").digest("/x"),
        lambda probe_session: RemoteFiles(probe_session, "n").checkpoint_soundness("/x"),
    )
    said: list[str] = []
    for ask in asked:
        try:
            found = ask(ProbeSession(SayingProcess(case), "n"))
        except ProbeError as error:
            said.append(str(error))
            continue
        if isinstance(found, NodeFacts):
            assert node_info("n", "a", found).cpu_count >= 1
            assert interpreter_facts(found).executable == found.python.executable
    assert max(map(len, said), default=0) < 10_000


def test_answers() -> None:
    read_all(read_answer, hostile.documents(FACTS, SAMPLE, *OTHERS))


def answer_question(case: bytes, _place: Path) -> None:
    """Every line gets an answer, and the next one is answered, too."""
    lines = case.decode("utf-8", "replace").replace("\n", " ") + '\n{"ask": "time"}\n'
    answers = io.StringIO()
    answer.serve(io.StringIO(lines), answers)
    said: list[Mapping[str, Any]] = [json.loads(line) for line in answers.getvalue().split("\n")[:-1]]
    assert len(said) == lines.count("\n")
    assert said[-1]["time"] > 0


def test_questions() -> None:
    read_all(answer_question, hostile.documents(*QUESTIONS))


def look_for_runs(case: bytes, place: Path) -> None:
    """Lock files and holders' names of a run directory that someone else wrote."""
    layout = RunLayout(place / "20261121T034455Z-gpt-0a1b2c")
    for path in (layout.node("a").lock, layout.attempt(1).node("a").holder, layout.journal):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case)
    is_supervised(layout.root)
    is_supervised_anywhere(layout.root)


def test_run_directories_of_others() -> None:
    identity = {"pid": 1, "start_ticks": 3, "boot": "b"}
    read_all(
        look_for_runs, hostile.documents({"holder": identity, "torchrun": identity}, identity) | st.binary()
    )
