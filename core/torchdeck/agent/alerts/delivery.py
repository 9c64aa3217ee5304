"""Delivery of an alert to its targets, each with a time limit and bounded retries."""

from __future__ import annotations

import html
import http.client
import os
import queue
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.alerts.http_request import HttpRequest, MissingValueError, http_request
from torchdeck.agent.alerts.message import SHORTEST_SECRET, Message, without_secrets
from torchdeck.agent.alerts.order import DELAYS
from torchdeck.contract.plan.alert_plan import AlertTarget, TargetKind

TRY_LIMIT = 15.0
"""Seconds of one try."""
LIMIT = 120.0
"""Seconds for all of it; an address can take longer than that to resolve."""
QUOTED = 200
"""Characters of a server's or program's answer that are quoted."""
_TRY_LATER = 75
"""EX_TEMPFAIL of sysexits.h."""
_SENDMAIL_FOLDERS = "/usr/sbin:/usr/lib:/usr/local/sbin"


class Delivered(NamedTuple):
    """Outcome for one target."""

    target: str
    """A `TargetKind`."""
    why: str
    """Why it failed, without secrets; empty if it was delivered."""
    tries: int


class DeliveryError(Exception):
    """One try failed; the message says why."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        """Create the error; `is_final`: another try would fail, too."""
        super().__init__(why)
        self.is_final = is_final


def deliver(
    targets: Sequence[AlertTarget],
    message: Message,
    secrets: Mapping[str, str],
    report: Callable[[Delivered], None],
    *,
    delays: Sequence[float] = DELAYS,
    limit: float = LIMIT,
) -> None:
    """Deliver to all targets at the same time; returns after `limit` seconds at the latest.

    Args:
        targets: targets of the alert.
        message: the alert.
        secrets: name → value.
        report: called with the outcome for each target, in this thread.
        delays: seconds before each retry.
        limit: seconds for all targets.
    """
    until = time.monotonic() + limit
    outcomes: queue.SimpleQueue[tuple[int, Delivered]] = queue.SimpleQueue()

    def work(index: int) -> None:
        outcomes.put((index, _with_retries(targets[index], message, secrets, delays, until)))

    waiting = dict(enumerate(targets))
    for index in waiting:
        threading.Thread(target=work, args=(index,), daemon=True).start()
    while waiting:
        try:
            index, found = outcomes.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        del waiting[index]
        report(found)
    for target in waiting.values():
        report(Delivered(target.kind, f"no answer within {limit:.0f} s", 0))


def _with_retries(
    target: AlertTarget, message: Message, secrets: Mapping[str, str], delays: Sequence[float], until: float
) -> Delivered:
    tries, why = 0, ""
    for delay in (0.0, *delays):
        if time.monotonic() + delay > until:
            break
        time.sleep(delay)
        tries += 1
        try:
            _once(target, message, secrets)
        except DeliveryError as error:
            why = without_secrets(str(error), secrets, SHORTEST_SECRET)
            if error.is_final:
                break
        except Exception as error:  # noqa: BLE001 - an alert must not end in a traceback with its secrets
            why = without_secrets(f"{type(error).__name__}: {error}", secrets, SHORTEST_SECRET)
            break
        else:
            return Delivered(target.kind, "", tries)
    return Delivered(target.kind, why or "no time was left", tries)


def _once(target: AlertTarget, message: Message, secrets: Mapping[str, str]) -> None:
    """Try once. Raises DeliveryError."""
    try:
        if target.kind == TargetKind.DESKTOP:
            _notify(message)
        elif target.kind == TargetKind.EMAIL:
            _mail(target, message)
        else:
            _send(http_request(target, message, secrets))
    except MissingValueError as error:
        raise DeliveryError(str(error), is_final=True) from error


# HTTP


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could pass a secret to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _send(request: HttpRequest) -> None:
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        made = urllib.request.Request(  # noqa: S310 - the scheme is checked below
            request.url, request.body, dict(request.headers), method=request.method
        )
        if made.type not in ("http", "https"):
            raise DeliveryError("the address is not one of HTTP", is_final=True)
        with opener.open(made, timeout=TRY_LIMIT) as answer:
            answer.read(QUOTED)
    except urllib.error.HTTPError as error:
        raise _refused(error) from error
    except (ValueError, http.client.InvalidURL) as error:  # quote the address
        raise DeliveryError("the address is not valid", is_final=True) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, (TimeoutError, socket.timeout)):
            raise DeliveryError(f"no answer within {TRY_LIMIT:.0f} s") from error
        raise DeliveryError(str(getattr(reason, "strerror", None) or reason)[:QUOTED]) from error


def _refused(error: urllib.error.HTTPError) -> DeliveryError:
    with error:
        try:
            quoted = " ".join(error.read(QUOTED).decode("utf-8", "replace").split())
        except (OSError, http.client.HTTPException):
            quoted = ""
    code = error.code
    text = f"HTTP {code} {error.reason}"[:QUOTED]
    if 300 <= code < 400:
        return DeliveryError(f"{text}: the address redirects, and redirects are not followed", is_final=True)
    return DeliveryError(
        f"{text}: {quoted}" if quoted else text, is_final=code < 500 and code not in (408, 429)
    )


# programs


def find_sendmail() -> str | None:
    """Return the program that sends mail; None if this machine has none."""
    return shutil.which("sendmail") or shutil.which("sendmail", path=_SENDMAIL_FOLDERS)


def _mail(target: AlertTarget, message: Message) -> None:
    program = find_sendmail()
    if program is None:
        raise DeliveryError(f"there is no program sendmail on {socket.gethostname()}", is_final=True)
    mail = EmailMessage()
    mail["To"] = ", ".join(target.to)
    mail["Subject"] = message.title
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{message.text}\n")
    _run([program, "-t", "-i"], mail.as_bytes(), dict(os.environ))


def session_bus() -> str | None:
    """Return the address of this user's session bus; None if there is no desktop session."""
    named = os.environ.get("DBUS_SESSION_BUS_ADDRESS")
    if named:
        return named
    usual = Path(f"/run/user/{os.getuid()}/bus")
    return f"unix:path={usual}" if usual.exists() else None


def desktop_problem() -> str:
    """Return why no notification can be shown on this machine; empty if it can."""
    if shutil.which("notify-send") is None:
        return f"there is no program notify-send on {socket.gethostname()}"
    if session_bus() is None:
        return f"there is no desktop session on {socket.gethostname()}"
    return ""


def _notify(message: Message) -> None:
    problem, program, bus = desktop_problem(), shutil.which("notify-send"), session_bus()
    if problem or program is None or bus is None:
        raise DeliveryError(problem, is_final=True)
    environ = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": bus}
    _run([program, "--app-name=Torchdeck", "--", message.title, _marked_up(message.text)], b"", environ)


def _marked_up(text: str) -> str:
    """Return a text as a notification has it: notify-send reads escapes in it, and the desktop markup."""
    return html.escape(text, quote=False).replace("\\", r"\\")


def _run(argv: Sequence[str], given: bytes, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            argv, input=given, env=dict(environ), capture_output=True, timeout=TRY_LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DeliveryError(f"{argv[0]} took more than {TRY_LIMIT:.0f} s") from error
    except OSError as error:
        raise DeliveryError(f"{argv[0]} cannot be started: {error.strerror}", is_final=True) from error
    if done.returncode != 0:
        printed = " ".join(done.stderr.decode("utf-8", "replace").split())[:QUOTED]
        text = f"{argv[0]} ended with exit code {done.returncode}"
        raise DeliveryError(f"{text}: {printed}" if printed else text, is_final=done.returncode != _TRY_LATER)
