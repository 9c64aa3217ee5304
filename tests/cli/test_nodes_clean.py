"""What `torchdeck nodes clean` shows, by what nodes said of themselves; real ones stand in tests/hosts."""

from typing import Any

from support.node_facts import node_facts
from torchdeck.cli.nodes_clean import orphans_once


def left(run_id: str, *pids: int) -> dict[str, Any]:
    said = {"run_id": run_id, "directory": "/r", "ranks": [], "user": "me", "supervised": False}
    return {**said, "processes": pids}


def test_processes_of_a_host_with_several_names_are_shown_once() -> None:
    """By its first name; another host may have the same pids, and what only one name showed is kept."""
    system = {"host": "b", "os": "", "kernel": "", "machine": "", "boot": "other", "user": "me"}
    facts = {
        "n1": node_facts(runs=[left("dead", 7, 8)]),
        "again": node_facts(runs=[left("dead", 7, 8), left("later", 9)]),
        "n2": node_facts(system=system, runs=[left("dead", 7, 8)]),
        "idle": node_facts(),
    }
    found = orphans_once(facts)
    assert {name: [run.run_id for run in runs] for name, runs in found.items()} == {
        "n1": ["dead"],
        "again": ["later"],
        "n2": ["dead"],
    }
