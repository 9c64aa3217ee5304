"""`torchdeck runs show|stop|resume|attach` on runs made by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cli.runs.conftest import output_of
from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    finished,
    running_run,
    started,
)
from support.values.made_runs import IDS, line, make_run
from support.values.run_homes import add_live_run
from support.waiting import wait_until
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.links import LOST, UP, LinkState, write_links
from torchdeck.telemetry.writer import MetricsWriter


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
