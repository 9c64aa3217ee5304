"""`torchdeck queue` without a server: add, edit, list, move, pause, remove, limit, and the unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli.command_here import CommandHere
from torchdeck.queue.queue_file import read_queue


@pytest.fixture
def command(torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandHere:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "run.toml").write_text(
        'name = "first"\n[run]\nscript = "train.py"\n[distributed]\nnproc = 2\n'
    )
    monkeypatch.chdir(tmp_path)
    return CommandHere(torchdeck_home)


def done(command: CommandHere, *arguments: str) -> str:
    found = command.run("queue", *arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


def entries(command: CommandHere) -> list[dict[str, Any]]:
    return list(command.json("queue", "list")["entries"])


def test_a_run_is_planned_before_it_is_queued(command: CommandHere) -> None:
    found = command.run("queue", "add", "run.toml", "--priority", "2", "--tag", "night")
    assert found.stdout.startswith(
        "queued as q1 (first): needs 2 GPUs of one model or a CPU slot; if all were"
    )
    assert "2 ranks on localhost" in found.stdout
    assert "no server runs" in found.stderr
    (entry,) = entries(command)
    assert (entry["stage"], entry["priority"], entry["tags"]) == ("waiting", 2, ["night"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--devices", "700"], "it never fits: it needs 700 GPUs of one model, and localhost has"),
        (["--nodes", "nowhere", "--devices", "1"], "unknown node: nowhere"),
        (["--nodes", "a b", "--set", "distributed.devices=cpu"], "unknown nodes: a, b"),
        (["--after", "nothing"], "there is no run 'nothing'"),
        (["--set", "run.script='gone.py'"], "gone.py does not exist"),
    ],
)
def test_what_could_never_run_is_not_queued(command: CommandHere, options: list[str], text: str) -> None:
    found = command.run("queue", "add", "run.toml", *options)
    assert found.returncode in (2, 3)
    assert text in found.stderr
    assert entries(command) == []


def test_a_queued_run_file_does_not_change(command: CommandHere, tmp_path: Path) -> None:
    done(command, "add", "run.toml", "--set", "name='second'", "--unchecked")
    (tmp_path / "run.toml").write_text("broken")
    (entry,) = read_queue(command.home).entries
    assert 'name = "first"' in entry.file.text
    done(command, "edit", "q1", "--set", "distributed.nproc=1")
    (entry,) = read_queue(command.home).entries
    assert entry.name == "second"
    assert entry.file.overrides == ("name='second'", "distributed.nproc=1")
    assert entry.ask.gpus == 1


def test_an_entry_keeps_its_place_when_it_is_edited(command: CommandHere) -> None:
    for name in ("a", "b"):
        done(command, "add", "run.toml", "--set", f"name={name}", "--unchecked", "--priority", "1")
    done(command, "edit", "q1", "--script", "train.py", "--after", "2:succeeded", "--unchecked")
    first, second = entries(command)
    assert (first["id"], first["name"], first["priority"], first["source"]) == ("q1", "train", 1, "")
    assert first["after"] == ["q2:succeeded"]
    assert second["name"] == "b"
    refused = command.run("queue", "edit", "q2", "--after", "q1", "--unchecked")
    assert "q2 would wait for itself" in refused.stderr
    assert entries(command)[1]["after"] == []


def test_order_pause_and_remove(command: CommandHere) -> None:
    for name in ("a", "b", "c"):
        done(command, "add", "run.toml", "--set", f"name={name}", "--unchecked")
    assert done(command, "move", "q3", "--first") == "order: q3, q1, q2\n"
    assert done(command, "move", "q3", "--last") == "order: q1, q2, q3\n"
    assert done(command, "move", "q2", "--before", "q1") == "order: q2, q1, q3\n"
    assert done(command, "move", "q3", "--priority", "5") == "order: q3, q2, q1\n"
    done(command, "pause", "q1", "q2")
    done(command, "resume", "q2")
    assert [each["paused"] for each in entries(command)] == [False, False, True]
    assert "paused" in done(command, "list")
    done(command, "remove", "q1", "q3")
    assert [each["id"] for each in entries(command)] == ["q2"]
    assert command.run("queue", "remove", "q1").returncode == 2


def test_limits(command: CommandHere) -> None:
    done(command, "limit", "--slots", "3", "--slots", "gpu1=0", "--per-user", "2", "--tag", "night=1")
    limits = json.loads(done(command, "limit", "--json"))
    assert limits == {"default_slots": 3, "slots": {"gpu1": 0}, "per_user": 2, "per_tag": {"night": 1}}
    text = done(command, "limit", "--slots", "gpu1=none", "--per-user", "none", "--tag", "night=none")
    assert text == "CPU slots per node: 3\nruns per user: none\n"


def test_the_unit_lets_runs_outlive_the_server(command: CommandHere) -> None:
    text = done(command, "serve", "--unit")
    assert "KillMode=process\n" in text
    assert f'Environment="TORCHDECK_HOME={command.home}"\n' in text
    assert '"queue" "serve"\n' in text
