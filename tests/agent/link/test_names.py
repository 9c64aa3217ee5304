"""What is mirrored is what `RunLayout` names for a node, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.link.names import Level, Mirrored, Way, is_node_name, mirrored
from torchdeck.contract.layout import RunLayout

HERE = RunLayout(Path())


def kind_of(path: Path, node: str = "n1") -> Mirrored | None:
    return mirrored(str(path), node)


def way_of(path: Path) -> tuple[Way, Level]:
    kind = kind_of(path)
    assert kind is not None
    assert 0 < kind.limit <= 1 << 36
    return kind.way, kind.level


def test_the_files_of_a_node_are_mirrored() -> None:
    """Events before metrics before logs."""
    rank = HERE.attempt(3).rank(12)
    assert way_of(HERE.node("n1").journal) == (Way.APPENDED, Level.EVENTS)
    assert way_of(HERE.node("n1").heartbeat) == (Way.REPLACED, Level.STATE)
    assert way_of(rank.metrics / "trainer-12-99-ab-0.metrics") == (Way.ROWS, Level.METRICS)
    assert way_of(HERE.node("n1").system / "system-12-99-ab-0.metrics") == (Way.ROWS, Level.MACHINE)
    assert way_of(rank.media / "log-12-99-ab-0.media") == (Way.APPENDED, Level.BULK)
    assert way_of(rank.progress) == (Way.RECORD, Level.STATE)
    assert way_of(rank.script) == way_of(rank.inside) == (Way.REPLACED, Level.STATE)
    examination = HERE.attempt(3).examination("1")
    assert way_of(examination.verdict) == (Way.REPLACED, Level.STATE)
    assert way_of(examination.rank(2)) == (Way.REPLACED, Level.LOGS)
    assert (
        way_of(examination.flight_recorder(2)) == way_of(examination.answer(2)) == (Way.REPLACED, Level.BULK)
    )
    assert way_of(examination.interfaces(2)) == (Way.REPLACED, Level.BULK)
    assert way_of(rank.stdout) == (Way.APPENDED, Level.LOGS)
    assert kind_of(HERE.attempt(3).plan) == kind_of(HERE.attempt(3).node("n1").root / "plan.json")
    assert way_of(HERE.attempt(3).node("n1").torchrun_log) == (Way.APPENDED, Level.LOGS)


@pytest.mark.parametrize(
    "path",
    [
        HERE.config,
        HERE.plan,
        HERE.journal,
        HERE.controller_log,
        HERE.node("n2").journal,
        HERE.attempt(1).node("n2").holder,
        HERE.node("n1").inbox / "1-stop-ab.json",
        HERE.node("n1").lock,
        HERE.attempt(1).stop,
        HERE.checkpoints / "step_1" / "manifest.json",
        "attempts/01/plan.json",
        "attempts/1/../../journal.jsonl",
        "attempts/1/ranks/../plan.json",
        "attempts/1/examinations/../verdict.json",
        "attempts/1/examinations/1/x.json",
        "attempts/1/examinations/1/1.json/verdict.json",
        "attempts/1/ranks/-1/stdout.log",
        "attempts/1/ranks/0/metrics/..",
        "attempts/1/ranks/0/media/.media",
        "attempts/1/ranks/0/media/a.metrics",
        "attempts/1/ranks/0/metrics/../../x.metrics",
        "/attempts/1/plan.json",
        "attempts//1/plan.json",
        "attempts/1/ranks/0/stdout.log/",
        "attempts/1/ranks/0/stdout.log\0",
        "attempts/²/plan.json",
        "nodes/n1",
        "",
    ],
)
def test_no_other_file_is(path: object) -> None:
    """Neither the controller's, nor another node's, nor what leads elsewhere."""
    assert mirrored(str(path), "n1") is None


@given(
    st.lists(st.sampled_from(["..", ".", "", "nodes", "n1", "attempts", "1", "ranks", "0", "journal.jsonl"]))
)
def test_no_name_leads_out_of_the_run(parts: list[str]) -> None:
    """Whatever is put together of names that are known: what is taken has no part that is none."""
    path = "/".join(parts)
    if mirrored(path, "n1") is not None:
        assert not {"..", ".", ""} & set(path.split("/"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "n" * 201])
def test_some_names_are_no_nodes(name: str) -> None:
    """A node's name is the name of a folder."""
    assert not is_node_name(name)
    assert is_node_name("gpu 0.example")
