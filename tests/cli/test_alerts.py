"""`torchdeck alerts test` sends one message to each target, and says what became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli.command_here import CommandHere
from support.system.http_server import http_server
from torchdeck.agent.alerts import delivery
from torchdeck.cli.main import main

pytestmark = pytest.mark.processes

RUN = """
name = "tiny"
[run]
script = "train.py"
[alerts]
slack = "${ALERT_HOOK}"
email = ["me@example.org"]
"""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").touch()
    sendmail = tmp_path / "bin" / "sendmail"
    sendmail.parent.mkdir()
    sendmail.write_text("#!/bin/sh\nexit 67\n")
    sendmail.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sendmail.parent}:/usr/bin:/bin")
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


@pytest.fixture
def command(torchdeck_home: Path) -> CommandHere:
    return CommandHere(torchdeck_home)


def test_each_target_has_its_outcome(
    run_file: Path, command: CommandHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3 if one was not reached; the secret is filled in and not printed."""
    with http_server() as server:
        monkeypatch.setenv("ALERT_HOOK", f"{server.url}/token-4711")
        found = command.run("alerts", "test", str(run_file))
        as_json = command.run("alerts", "test", str(run_file), "--json")
    assert found.returncode == 3
    assert "slack: sent" in found.stdout
    assert "sendmail ended with exit code 67" in found.stdout
    assert [request.path for request in server.requests] == ["/token-4711"] * 2
    assert "tiny can send alerts" in json.loads(server.requests[0].body)["text"]
    mail, slack = json.loads(as_json.stdout)["targets"]
    assert slack == {"target": "slack", "sent": True, "why": ""}
    assert (mail["target"], mail["sent"]) == ("email", False)
    assert "4711" not in found.stdout + found.stderr


def test_what_is_missing_is_named(
    run_file: Path, command: CommandHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret without a value, and a run file without targets."""
    monkeypatch.delenv("ALERT_HOOK", raising=False)
    found = command.run("alerts", "test", str(run_file))
    assert "alerts names ALERT_HOOK, but this variable is not set here" in found.stderr
    run_file.write_text('[run]\nscript = "train.py"\n')
    found = command.run("alerts", "test", str(run_file))
    assert found.returncode == 2
    assert "names no target for alerts" in found.stderr


def test_a_check_warns_of_programs_that_are_not_here(
    run_file: Path, command: CommandHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mail and desktop, on this machine; servers are not asked."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(delivery, "_SENDMAIL_FOLDERS", "/nowhere")
    found = command.run("check", "--quick", str(run_file), "--set", "alerts.desktop=true")
    assert "alerts cannot be mailed: there is no program sendmail" in found.stdout
    assert "alerts cannot be shown on the desktop: there is no program notify-send" in found.stdout


def test_a_run_file_that_sends_secrets_to_its_own_host_needs_trust(
    run_file: Path, command: CommandHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could name any variable; `check` and a launch ask, too."""
    monkeypatch.setenv("ALERT_HOOK", "token-4711")
    with http_server() as server:
        alerts = f'[alerts]\nntfy = "{server.url}/${{ALERT_HOOK}}"\n'
        run_file.write_text(f'[run]\nscript = "train.py"\n{alerts}')
        found = command.run("alerts", "test", str(run_file))
        checked = command.run("check", "--quick", str(run_file))
        assert server.requests == []
        trusted = command.run("alerts", "test", str(run_file), "--trust")
    assert found.returncode == 3
    assert "run.toml sends ALERT_HOOK to an address in it, and its folder" in found.stderr
    assert "sends ALERT_HOOK to an address in it" in checked.stdout
    assert trusted.stdout == "ntfy: sent\n"
    assert [request.path for request in server.requests] == ["/token-4711"]


def test_an_answer_of_a_server_sends_no_escapes_to_the_terminal(
    run_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are shown as text."""
    answers = [delivery.Delivered("slack", "HTTP 500: \x1b]0;owned\x07\nsent", 1)]
    monkeypatch.setattr("torchdeck.use_cases.alerts.send_test_alert", lambda *_, **__: answers)
    assert main(["alerts", "test", str(run_file)]) == 3
    out = capsys.readouterr().out
    assert out.startswith("slack: failed: HTTP 500: ")
    assert out.count("\n") == 1
    assert out.rstrip("\n").isprintable()
