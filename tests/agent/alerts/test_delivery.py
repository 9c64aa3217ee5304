"""Delivery to a real HTTP server and by real programs in a folder."""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from support.system.free_port import free_port
from support.system.http_server import http_server
from support.values.alert_values import MESSAGE
from torchdeck.agent.alerts import delivery
from torchdeck.agent.alerts.delivery import Delivered, deliver, desktop_problem
from torchdeck.contract.plan.alert_plan import AlertTarget

pytestmark = pytest.mark.processes

MAIL = AlertTarget("email", to=("me@example.org", "you@example.org"))
MARKED_UP = 'ValueError: "no" &amp; &lt;nothing&gt;\nState: FAILED C:\\\\new'
SECRETS = {"URL": "", "KEY": "token-4711"}


def delivered(
    *targets: AlertTarget, url: str = "", delays: Sequence[float] = (0.0, 0.0), limit: float = 30.0
) -> list[Delivered]:
    found: list[Delivered] = []
    deliver(targets, MESSAGE, {**SECRETS, "URL": url}, found.append, delays=delays, limit=limit)
    return found


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_each_service_gets_one_request() -> None:
    """In the form that it expects, with the secret filled in."""
    targets = [
        AlertTarget("ntfy", "${URL}/topic-${KEY}"),
        AlertTarget("slack", "${URL}/slack"),
        AlertTarget("discord", "${URL}/discord"),
        AlertTarget("webhook", "${URL}/hook", method="PATCH", headers={"X-Key": "${KEY}"}, body="@{title}"),
    ]
    with http_server() as server:
        found = delivered(*targets, url=server.url)
    assert sorted(found) == sorted(Delivered(each.kind, "", 1) for each in targets)
    got = {request.path: request for request in server.requests}
    assert len(server.requests) == len(got) == 4
    assert got["/topic-token-4711"].headers["Title"] == "tiny failed"
    assert "tiny failed" in json.loads(got["/slack"].body)["text"]
    assert "tiny failed" in json.loads(got["/discord"].body)["content"]
    assert got["/hook"].method == "PATCH"
    assert got["/hook"].headers["X-Key"] == "token-4711"
    assert got["/hook"].body == b"tiny failed"


@pytest.mark.parametrize(
    ("codes", "tries", "why"),
    [
        ((500, 503, 200), 3, ""),
        ((429, 200), 2, ""),
        ((500,), 3, "HTTP 500 Internal Server Error: answer to /***"),
        ((404,), 1, "HTTP 404 Not Found: answer to /***"),
        ((302,), 1, "HTTP 302 Found: the address redirects, and redirects are not followed"),
    ],
)
def test_a_server_that_refuses_is_asked_again_if_that_can_help(
    codes: tuple[int, ...], tries: int, why: str
) -> None:
    """So often and no more; no answer shows the secret, and no redirect gets it."""
    with http_server(*codes) as server:
        found = delivered(AlertTarget("webhook", "${URL}/${KEY}"), url=server.url)
    assert found == [Delivered("webhook", why, tries)]
    assert [request.path for request in server.requests] == ["/token-4711"] * tries


def test_an_answer_that_quotes_a_part_of_a_secret_address_is_masked() -> None:
    """As servers do that do not know a path."""
    with http_server(404) as server:
        (found,) = delivered(AlertTarget("slack", "${URL}"), url=f"{server.url}/hooks/token-4711")
    assert found.why == "HTTP 404 Not Found: answer to ***"


def test_no_server_and_wrong_addresses_fail_with_a_reason_and_no_secret() -> None:
    """Each in a sentence."""
    nowhere = f"http://127.0.0.1:{free_port()}/token-4711"
    (found,) = delivered(AlertTarget("slack", "${URL}"), url=nowhere)
    assert found == Delivered("slack", "Connection refused", 3)
    for url in ("file:///token-4711", "token-4711", "http://[token-4711/", "http://x/token-4711 y"):
        (found,) = delivered(AlertTarget("slack", "${URL}"), url=url)
        assert found.why
        assert "4711" not in found.why
        assert found.tries == 1
    (found,) = delivered(AlertTarget("slack", "${NOT_THERE}"))
    assert found == Delivered("slack", "secret NOT_THERE has no value here", 1)


def test_what_takes_too_long_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not keep the others from being reported."""
    program(tmp_path, "sendmail", "exec sleep 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with http_server() as server:
        targets = (MAIL, AlertTarget("ntfy", "${URL}"))
        found = delivered(*targets, url=server.url, limit=1.0)
    assert found == [Delivered("ntfy", "", 1), Delivered("email", "no answer within 1 s", 0)]


def test_a_mail_goes_to_sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From standard input, with recipients in its header, as `sendmail -t` reads it."""
    program(tmp_path, "sendmail", f'echo "$@" > "{tmp_path}/arguments"; cat > "{tmp_path}/mail"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert delivered(MAIL) == [Delivered("email", "", 1)]
    assert (tmp_path / "arguments").read_text() == "-t -i\n"
    mail = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=email.policy.default)
    assert (mail["To"], mail["Subject"]) == ("me@example.org, you@example.org", "tiny failed")
    assert mail.get_content() == f"{MESSAGE.text}\n"


def test_a_mail_that_cannot_be_sent_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 75 means later; another one, never."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = program(tmp_path, "sendmail", f'echo x >> "{tmp_path}/count"; echo "queue full" >&2; exit 75')
    assert delivered(MAIL) == [Delivered("email", f"{path} ended with exit code 75: queue full", 3)]
    assert (tmp_path / "count").read_text() == "x\nx\nx\n"
    program(tmp_path, "sendmail", 'echo "no such user" >&2; exit 67')
    assert delivered(MAIL) == [Delivered("email", f"{path} ended with exit code 67: no such user", 1)]
    path.unlink()
    monkeypatch.setattr(delivery, "_SENDMAIL_FOLDERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = delivered(MAIL)
    assert found.why.startswith("there is no program sendmail on ")


def test_a_desktop_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session bus and notify-send; else it says what is missing."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    program(tmp_path, "notify-send", f'printf "%s|" "$@" > "{tmp_path}/shown"')
    found: list[Delivered] = []
    message = MESSAGE._replace(text=f"{MESSAGE.text} C:\\new")
    deliver([AlertTarget("desktop")], message, {}, found.append)
    assert found == [Delivered("desktop", "", 1)]
    assert (tmp_path / "shown").read_text() == f"--app-name=Torchdeck|--|tiny failed|{MARKED_UP}|"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert "no program notify-send" in desktop_problem()
    (other,) = delivered(AlertTarget("desktop"))
    assert (other.why, other.tries) == (desktop_problem(), 1)


def test_a_long_reason_of_a_server_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its answer is."""
    monkeypatch.setattr(BaseHTTPRequestHandler, "responses", {404: ("x" * 5000, "")})
    with http_server(404) as server:
        (found,) = delivered(AlertTarget("slack", "${URL}/"), url=server.url)
    assert found.why == f"HTTP 404 {'x' * 191}: answer to /"
