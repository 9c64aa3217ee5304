"""`torchdeck runs list|show|logs|stop|resume|delete` on runs made by hand."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.system.free_port import free_port
from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    running_run,
    started,
)
from support.values.machines import config, node, plan
from support.values.made_runs import IDS, line, make_run
from support.values.run_homes import add_live_run
from support.waiting import wait_until
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.quantities import duration
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.links import LOST, UP, LinkState, write_links
from torchdeck.telemetry.writer import MetricsWriter

FAILED = [*running_run(), ended(1, "failed", failure(1)), finished("FAILED", why="rank 1 failed")]
OUTPUT = {
    (1, 0, "stdout"): "zero\nfirst\n",
    (1, 1, "stdout"): "one\n",
    (1, 1, "stderr"): "Traceback\n",
    (2, 0, "stdout"): "again",
}


@pytest.fixture
def failed(torchdeck_home: Path) -> RunLayout:
    return make_run(torchdeck_home, controller_journal(), FAILED, output=OUTPUT)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_list_shows_every_run(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people; for programs an array of objects with id, name, state, created, started, ended."""
    text = output_of(capsys, "runs", "list")
    assert IDS[0] in text
    assert "FAILED" in text
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    expected = {
        "id": IDS[0],
        "name": "gpt",
        "state": "FAILED",
        "created": 100.0,
        "started": 101.0,
        "ended": 105.0,
    }
    assert expected.items() <= row.items()


def test_list_says_how_far_a_run_came(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is over has the step of its last checkpoint."""
    saved = event("checkpoint", step=40, path="/c/final", seconds=0.1, size=1)
    make_run(torchdeck_home, controller_journal(), [*running_run(), saved, ended(), finished()])
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["step"] == 40
    assert output_of(capsys, "runs", "list").splitlines()[1].split()[-3:] == ["40", "-", "-"]


def test_list_says_for_how_long_a_run_has_been_running(
    torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_live_run(torchdeck_home, 1)
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    monkeypatch.setattr("torchdeck.cli.runs.listing.time.time", lambda: row["started"] + 90.0)
    heading, shown = output_of(capsys, "runs", "list").splitlines()[:2]
    assert "RUNNING" in shown
    assert shown[heading.index("TOOK") :].startswith(duration(90.0))


def test_a_watched_training_that_is_over_is_not_called_successful(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its parent process knows whether it failed; for programs the state is as before."""
    kinds = [
        event("created", each.time, **{**each.fields, "kind": WATCHED}) if each.name == "created" else each
        for each in controller_journal()
    ]
    make_run(torchdeck_home, kinds, [*running_run(), ended(), finished(why="its process ended")])
    for command in (("list",), ("show", "latest")):
        shown = output_of(capsys, "runs", *command)
        assert "ENDED" in shown
        assert "SUCCEEDED" not in shown
    assert json.loads(output_of(capsys, "runs", "list", "--json"))[0]["state"] == "SUCCEEDED"


def test_list_of_no_runs(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty array for programs, a hint for people."""
    assert json.loads(output_of(capsys, "runs", "list", "--json")) == []
    assert "torchdeck init" in output_of(capsys, "runs", "list")


def test_list_says_which_run_cannot_be_read(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """A newer run is a row with its sentence."""
    failed.journal.write_text(line(event("created"), version=99))
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["state"] == "UNREADABLE"
    assert "update Torchdeck" in row["why"]


def test_show_tells_what_failed(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """State, first failing rank, traceback, and what to type next."""
    text = output_of(capsys, "runs", "show", "latest")
    for expected in ("FAILED", "rank 1 failed", "Traceback", "runs logs", str(failed.root)):
        assert expected in text
    value = json.loads(output_of(capsys, "runs", "show", "gpt", "--json"))
    assert value["first_failure"]["rank"] == 1
    assert value["exit_code"] == 1
    assert value["directory"] == str(failed.root)


def test_damaged_metrics_are_named(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsWriter(failed.attempt(1).rank(0).metrics) as writer:
        for step in range(3):
            writer.log({"loss": 1.0}, step)
    assert "checksum" not in output_of(capsys, "runs", "show", "latest")
    (path,) = failed.attempt(1).rank(0).metrics.glob("*.metrics")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    sentence = f"rows 1 to 3 of {path.relative_to(failed.root)} do not match their checksum"
    assert sentence in output_of(capsys, "runs", "show", "latest")
    (told,) = json.loads(output_of(capsys, "runs", "show", "latest", "--json"))["damaged_metrics"]
    assert told.startswith(sentence)
    assert main(["runs", "metrics", "latest"]) == 0
    assert sentence in capsys.readouterr().err


def test_show_says_where_traces_lie(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """What telemetry.profile_steps left in the ranks' folders, by attempt."""
    assert "traces of steps" not in output_of(capsys, "runs", "show", "latest")
    trace = failed.attempt(1).rank(1).trace
    trace.parent.mkdir(parents=True, exist_ok=True)
    trace.touch()
    text = output_of(capsys, "runs", "show", "latest")
    assert f"traces of steps, for Perfetto or chrome://tracing: {trace}" in text


def test_logs_of_all_ranks_and_of_one(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks with the rank in front; one rank's lines as they are; standard error on request."""
    text = output_of(capsys, "runs", "logs", IDS[0])
    assert text == "[rank 0] zero\n[rank 0] first\n[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "0") == "zero\nfirst\nagain\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "1", "--stderr") == "Traceback\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "1", "--follow") == "one\n"
    rows = [json.loads(row) for row in output_of(capsys, "runs", "logs", IDS[0], "--json").splitlines()]
    assert rows[0] == {"attempt": 1, "rank": 0, "stream": "stdout", "text": "zero"}


def test_logs_of_a_rank_that_is_not_there(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """Says which ranks there are."""
    assert main(["runs", "logs", IDS[0], "--rank", "2"]) == 2
    assert "ranks 0 to 1" in capsys.readouterr().err


def test_logs_of_all_ranks_are_printed_without_reading_the_journals(
    failed: RunLayout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be long; only the number of a rank is compared with them."""
    read: list[RunLayout] = []

    def follower(layout: RunLayout) -> RunFollower:
        read.append(layout)
        return RunFollower(layout)

    monkeypatch.setattr("torchdeck.cli.runs.logs.RunFollower", follower)
    for words in ([], ["--tail", "1"], ["--grep", "first"]):
        assert output_of(capsys, "runs", "logs", IDS[0], *words)
    assert read == []
    assert main(["runs", "logs", IDS[0], "--rank", "2"]) == 2
    assert [layout.root for layout in read] == [failed.root]


@pytest.mark.parametrize("command", ["show", "stacks", "logs", "attach", "stop", "resume", "delete"])
def test_a_run_that_does_not_exist_is_a_sentence(
    command: str, failed: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and how to see those that do."""
    assert main(["runs", command, "no-such-run"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "torchdeck runs list" in captured.err


@pytest.mark.parametrize("command", ["show", "stacks", "logs", "attach", "stop", "resume", "delete"])
def test_a_newer_run_is_a_sentence(
    command: str, failed: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing is touched."""
    failed.journal.write_text(line(event("created"), version=99))
    assert main(["runs", command, IDS[0]]) == 2
    assert "newer Torchdeck" in capsys.readouterr().err
    assert failed.plan.exists()


def test_unwritable_home_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there can be no home, it is said what to set."""
    monkeypatch.setenv("TORCHDECK_HOME", "/proc/nowhere")
    assert main(["runs", "list"]) == 2
    assert "set TORCHDECK_HOME" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.parametrize(("kind", "expected"), [("script", "False"), ("recipe", "True")])
def test_numpy_is_imported_only_if_samples_can_be_audited(
    torchdeck_home: Path, kind: str, expected: str
) -> None:
    """The import takes 0.2 s, with which a short run of a script would end later."""
    journal = [replace(each, fields={**each.fields, "kind": kind}) for each in controller_journal()]
    make_run(torchdeck_home, journal, [*running_run(), ended(), finished()])
    code = (
        "import sys\n"
        "from torchdeck.cli.main import main\n"
        f"main(['runs', 'attach', '{IDS[0]}'])\n"
        "print('numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == expected


def test_attach_to_a_run_that_is_over_shows_it_and_its_exit_code(
    failed: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary, and the code that the run ended with."""
    assert main(["runs", "attach", IDS[0]]) == 1
    assert "rank 1 failed" in capsys.readouterr().out
    assert main(["runs", "attach", IDS[0], "--json"]) == 1
    events = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert [row["event"] for row in events][:1] == ["run"]
    assert events[-1]["event"] == "end"
    assert events[-1]["state"] == "FAILED"


@pytest.mark.parametrize(
    ("command", "said"), [("stop", "already"), ("stacks", "its ranks are gone"), ("resume", "no checkpoint")]
)
def test_what_a_run_that_is_over_cannot_do_is_refused(
    command: str, said: str, failed: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3; nothing is written."""
    before = failed.journal.read_bytes()
    assert main(["runs", command, IDS[0]]) == 3
    assert said in capsys.readouterr().err
    assert failed.journal.read_bytes() == before
    assert list(failed.control.iterdir()) == []


def test_delete_removes_a_run_that_is_over(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """And says which."""
    assert IDS[0] in output_of(capsys, "runs", "delete", "latest")
    assert not failed.root.exists()


@pytest.mark.parametrize(
    ("answer", "arguments", "deleted"),
    [("no\n", [], False), ("\n", [], False), ("yes\n", [], True), ("", ["--yes"], True)],
)
def test_delete_asks_on_a_terminal(
    failed: RunLayout,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    arguments: list[str],
    deleted: bool,
) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        os.write(ours, answer.encode())
        assert main(["runs", "delete", IDS[0], *arguments]) == (0 if deleted else 3)
    os.close(ours)
    assert failed.root.exists() is not deleted
    asked = f"Delete run gpt ({IDS[0]}, FAILED)" in capsys.readouterr().err
    assert asked is not bool(arguments)


def test_a_run_whose_journal_is_no_file_is_listed_and_can_be_deleted(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are listed as they are; what shows the run says in a sentence why it cannot."""
    make_run(torchdeck_home, controller_journal(), FAILED)
    bad = make_run(torchdeck_home, [], run_id=IDS[1])
    bad.journal.unlink()
    os.mkfifo(bad.journal)
    rows = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert [(row["id"], row["state"]) for row in rows] == [(IDS[1], "UNREADABLE"), (IDS[0], "FAILED")]
    for command, code in (("show", 2), ("attach", 2), ("resume", 3)):
        assert main(["runs", command, IDS[1]]) == code
        said = capsys.readouterr().err
        assert "is a named pipe" in said
        assert said.count("\n") == 1
    assert main(["runs", "stop", IDS[1]]) == 3
    assert "no process of run" in capsys.readouterr().err
    assert IDS[1] in output_of(capsys, "runs", "delete", IDS[1])
    assert not bad.root.exists()


def test_a_run_without_its_plan_and_journal_names_the_log_to_read(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent ended before it started ranks: its own log may say why."""
    make_run(torchdeck_home, controller_journal(), [agent_started()])
    assert "nodes/localhost/agent.log" in output_of(capsys, "runs", "show", IDS[0])


def test_a_stop_that_comes_too_late_says_that_nothing_was_stopped(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends by itself, and no agent takes the request."""
    run = add_live_run(torchdeck_home, 1)

    def end() -> None:
        wait_until(lambda: any(run.control.iterdir()), 20, "the request to be written")
        init = ProcessIdentity.of(1)
        assert init is not None
        gone = event("agent_started", identity={**init.to_json(), "boot": "another"}, adopted=False)
        with run.node("localhost").journal.open("a") as file:
            file.writelines(map(line, [gone, ended(), finished()]))

    ending = threading.Thread(target=end)
    ending.start()
    assert main(["runs", "stop", run.root.name]) == 3
    ending.join()
    said = capsys.readouterr()
    assert f"nothing was stopped: run {run.root.name} was SUCCEEDED before it took the request" in said.err


def test_delete_refuses_a_run_that_lives(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, with the command that stops it."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    alive = event("agent_started", identity=me.to_json(), adopted=False)
    layout = make_run(torchdeck_home, controller_journal(), [alive])
    assert main(["runs", "delete", IDS[0]]) == 3
    assert "runs stop" in capsys.readouterr().err
    assert layout.plan.exists()


@pytest.mark.processes
def test_output_that_nobody_reads_is_no_traceback(torchdeck_home: Path) -> None:
    """`torchdeck runs logs ID | head` ends in silence."""
    make_run(torchdeck_home, controller_journal(), FAILED, output={(1, 0, "stdout"): "x" * 99 + "\n" * 20000})
    command = f"{sys.executable} -m torchdeck.cli.main runs logs latest | head -c 10"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "[rank 0] x"
    assert done.stderr == ""


def test_show_names_the_nodes_of_a_run_that_goes_on_and_how_they_are_reached(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that counts no steps is not said to stand at one."""
    plan = {"version": 1, "nodes": [{"name": "n1"}, {"name": "n2"}]}
    layout = make_run(torchdeck_home, [event("created", time.time(), name="gpt", kind="script")], plan=plan)
    now = time.time()
    up = LinkState("n1", UP, now, now, agent_alive=True)
    lost = LinkState("n2", LOST, now - 2, now - 12)
    write_links(layout, {"n1": up, "n2": lost}, now)
    layout.node("n1").inbox.mkdir(parents=True)
    layout.node("n1").journal.write_text("".join(map(line, (agent_started(now), started(at=now)))))
    beat = {"t": now, "attempt": 1, "ranks": {"0": {"phase": "starting", "step": 0, "still": 54.0}}}
    layout.node("n1").heartbeat.write_text(json.dumps(beat))
    text = output_of(capsys, "runs", "show", "gpt")
    assert "  node n1: connected\n" in text
    assert re.search(r"  node n2: link lost 1[2-9] s ago\n", text)
    assert "  rank 0: no progress reported\n" in text
    assert json.loads(output_of(capsys, "runs", "show", "gpt", "--json"))["links"]["n2"]["state"] == "lost"


def test_a_run_that_nobody_follows_is_said_to_be_one(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its controller here was killed: what is shown is as old as what that told last, and says so."""
    now = time.time()
    layout = make_run(torchdeck_home, [event("created", now - 900, name="gpt", kind="recipe")])
    layout.node("n1").inbox.mkdir(parents=True)
    events = (agent_started(now - 900), started(at=now - 900), event("running", now - 900, attempt=1))
    layout.node("n1").journal.write_text("".join(map(line, events)))
    beat = {"t": now - 600, "attempt": 1, "ranks": {"0": {"phase": "training", "step": 8, "still": 1.0}}}
    layout.node("n1").heartbeat.write_text(json.dumps(beat))
    up = LinkState("n1", UP, now - 900, now - 610, agent_alive=True)
    write_links(layout, {"n1": up}, now - 600)
    _, row, note = output_of(capsys, "runs", "list").splitlines()
    assert row.split()[2] == "RUNNING?"
    assert re.match(rf"\? {layout.root.name}: not followed from here for 10 min", note)
    assert note.endswith(f"(torchdeck runs attach {layout.root.name})")
    shown = output_of(capsys, "runs", "show", "gpt")
    assert "  not followed from here for 10 min" in shown.splitlines()[1]
    assert "attach`, last heard from 10 min ago\n" in shown
    assert "  rank 0: training step 8 at the last report\n" in shown
    (told,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert (told["state"], told["followed_until"]) == ("RUNNING", now - 600)
    assert json.loads(output_of(capsys, "runs", "show", "gpt", "--json"))["followed_until"] == now - 600
    write_links(layout, {"n1": up}, time.time())
    (told,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert told["followed_until"] is None


def test_delete_says_what_is_left_on_nodes_and_what_removes_it_later(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes here; a node that is not reached keeps what it has, and exit code 3 says so."""
    asked = config(distributed={"nodes": ["n1"]})
    there = replace(node("n1", cores=1), remote=True)
    layout = make_run(torchdeck_home, controller_journal(), FAILED, plan=plan(asked, there).document())
    node_inventory = f'[nodes.n1]\naddress = "127.0.0.1"\nport = {free_port()}\nuser = "nobody"\n'
    inventory_path(torchdeck_home).write_text(node_inventory)
    run_id = layout.root.name
    assert main(["runs", "delete", "gpt"]) == 3
    said = capsys.readouterr()
    assert f"deleted {run_id}" in said.out
    assert "node n1: not removed there: " in said.err
    assert not layout.root.exists()
    assert main(["runs", "delete", run_id, "--node", "n1", "n2", "--json"]) == 3
    value = json.loads(capsys.readouterr().out)
    assert [(each["node"], each["removed"]) for each in value["nodes"]] == [("n1", False), ("n2", False)]
    assert "node inventory" in value["nodes"][1]["why"]
    assert main(["runs", "delete", "gpt", "--node", "n1"]) == 2
    assert "whole id" in capsys.readouterr().err


def test_nodes_are_left_alone_where_that_is_asked(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that continues loses nothing on its nodes either."""
    asked = config(distributed={"nodes": ["n1"]})
    there = replace(node("n1", cores=1), remote=True)
    document = plan(asked, there).document()
    make_run(torchdeck_home, controller_journal(), FAILED, plan=document)
    assert output_of(capsys, "runs", "delete", "gpt", "--here").count("\n") == 1
    myself = ProcessIdentity.of(1)
    assert myself is not None
    alive = event("controller_started", identity=myself.to_json(), epoch=1)
    layout = make_run(torchdeck_home, [*controller_journal(), alive], run_id=IDS[1], plan=document)
    assert main(["runs", "delete", layout.root.name, "--node", "n1"]) == 3
    assert "stop it first" in capsys.readouterr().err


def write_times(layout: RunLayout) -> None:
    """Rank 0 printed a minute before rank 1, and again in the second attempt."""
    now = time.time()
    for attempt, rank, ago in ((1, 0, 7200.0), (1, 1, 3600.0), (2, 0, 60.0)):
        files = layout.attempt(attempt).rank(rank)
        lengths = [path.stat().st_size if path.exists() else 0 for path in (files.stdout, files.stderr)]
        files.log_times.write_bytes(ROW.pack(now - ago, *lengths))


def test_last_lines_of_logs(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """--tail, --since and --grep, each alone and together, in order of time."""
    write_times(failed)
    command = ("runs", "logs", IDS[0])
    assert output_of(capsys, *command, "--tail", "2") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--tail", "2", "--rank", "0") == "first\nagain\n"
    assert output_of(capsys, *command, "--tail", "0") == ""
    assert output_of(capsys, *command, "--since", "90m") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "1h30m", "--tail", "1") == "[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "90m", "--grep", "^o") == "[rank 1] one\n"
    assert (
        output_of(capsys, *command, "--grep", "r[so]|^o") == "[rank 0] zero\n[rank 0] first\n[rank 1] one\n"
    )
    assert output_of(capsys, *command, "--tail", "1", "--grep", "o") == "[rank 1] one\n"
    assert output_of(capsys, *command, "--tail", "9", "--since", "2999-01-01") == ""
    (found,) = output_of(capsys, *command, "--stderr", "--tail", "1", "--json").splitlines()
    assert json.loads(found) == {"attempt": 1, "rank": 1, "stream": "stderr", "text": "Traceback"}
    assert output_of(capsys, *command, "--tail", "1", "--follow") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "90m", "--grep", "x", "--follow") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tail", "-1"], "whole number"),
        (["--tail", "many"], "whole number"),
        (["--since", "yesterday"], "give how long ago"),
        (["--since", "25:00"], "give how long ago"),
        (["--grep", "("], "no regular expression"),
    ],
)
def test_wrong_choices_of_lines_say_what_is_right(
    failed: RunLayout, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit code 2."""
    try:
        code: object = main(["runs", "logs", IDS[0], *words])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_list_of_the_newest_and_of_a_state(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest run comes first; runs beyond the limit are not even read."""
    over = [*running_run(), ended(), finished()]
    make_run(torchdeck_home, controller_journal(), FAILED, run_id=IDS[0])
    make_run(torchdeck_home, controller_journal(), over, run_id=IDS[1])

    def listed(*words: str) -> list[str]:
        return [row["id"] for row in json.loads(output_of(capsys, "runs", "list", "--json", *words))]

    newest, oldest = sorted(IDS[:2], reverse=True)
    assert listed() == [newest, oldest]
    assert listed("--limit", "1") == [newest]
    assert listed("--state", "failed") == [IDS[0]]
    assert listed("--state", "SUCCEEDED", "--limit", "5") == [IDS[1]]
    assert listed("--state", "RUNNING") == []
    assert listed("--where", "state = failed and not name = other") == [IDS[0]]
    assert listed("--where", "ranks > 1000") == []
    assert main(["runs", "list", "--where", "state ="]) == 2
    assert "not understood at its end: expected a value" in capsys.readouterr().err
    assert output_of(capsys, "runs", "list", "--state", "running") == "no run is RUNNING\n"
    assert output_of(capsys, "runs", "list").splitlines()[1].startswith(newest)


HANG = {"attempt": 1, "rank": 1, "phase": "training", "step": 3, "still": 60.0, "limit": 30.0}


def test_list_marks_a_run_that_hangs(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As long as it does."""
    layout = add_live_run(torchdeck_home, 1)
    for found, is_hung in ((event("hang", **HANG), True), (event("hang_over", rank=1), False)):
        with layout.node("localhost").journal.open("a") as file:
            file.write(line(found))
        (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
        assert (row["state"], row["hung"]) == ("RUNNING", is_hung)
        assert ("RUNNING, hung" in output_of(capsys, "runs", "list")) == is_hung


def test_the_help_of_runs_names_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    """In the list of all commands, too."""
    with pytest.raises(SystemExit):
        main(["--help"])
    (shown,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("  runs ")]
    for verb in (
        "list",
        "show",
        "logs",
        "metrics",
        "stacks",
        "attach",
        "stop",
        "resume",
        "clone",
        "pull",
        "delete",
    ):
        assert verb in shown


def test_a_script_that_reports_nothing_has_no_step(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not step 0."""
    kinds = [
        event("created", each.time, **{**each.fields, "kind": "script"}) if each.name == "created" else each
        for each in controller_journal()
    ]
    layout = make_run(torchdeck_home, kinds, [*running_run(), ended(), finished()])
    rank = {"phase": "running", "step": 0, "total": None, "t": 104.0, "still": 1.0, "pid": 5}
    beat = {"v": 1, "attempt": 1, "t": 104.0, "ranks": {"0": rank}}
    layout.node("localhost").heartbeat.write_text(json.dumps(beat))
    (row,) = json.loads(output_of(capsys, "runs", "list", "--json"))
    assert row["step"] is None
