"""HTTP request of an alert, for known services and for templates."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torchdeck.agent.alerts.message import Message
from torchdeck.contract.package import VERSION
from torchdeck.contract.plan.alert_plan import SECRET, AlertEvent, AlertTarget, TargetKind

DISCORD_LIMIT = 2000
"""Characters of a message on Discord."""
TELEGRAM = "https://api.telegram.org"
_FIELD = re.compile(rf"@\{{({'|'.join(Message._fields)})\}}")
_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_URGENT = (AlertEvent.FAILED, AlertEvent.HANG, AlertEvent.NOT_FINITE, AlertEvent.DISK)
_AGENT = f"torchdeck/{VERSION}"


class MissingValueError(Exception):
    """A secret of a target has no value here, or one of another form; the message names it."""


class HttpRequest(NamedTuple):
    """A request, complete. Its URL, headers and body may contain secrets."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes | None


def http_request(target: AlertTarget, message: Message, secrets: Mapping[str, str]) -> HttpRequest:
    """Return the request for an alert.

    Args:
        target: a target that HTTP reaches.
        message: the alert.
        secrets: name → value.

    Raises:
        MissingValueError: a secret has no value, or the token of a bot is none.
    """
    url = filled(target.url, secrets)
    kind = TargetKind(target.kind)
    if kind is TargetKind.NTFY:
        return _ntfy(url, message)
    if kind is TargetKind.SLACK:
        return _json(url, {"text": f"*{_slack(message.title)}*\n{_slack(message.text)}"})
    if kind is TargetKind.DISCORD:
        text = f"**{message.title}**\n{message.text}"[:DISCORD_LIMIT]
        return _json(url, {"content": text, "allowed_mentions": {"parse": []}})
    if kind is TargetKind.TELEGRAM:
        if _TOKEN.fullmatch(url) is None:  # anything else could lead to another method or bot
            raise MissingValueError(
                f"the value of {target.url} is not the token of a bot, such as 123456:ABC"
            )
        chat = filled("".join(target.to), secrets)
        text = f"{message.title}\n{message.text}"
        return _json(f"{TELEGRAM}/bot{url}/sendMessage", {"chat_id": chat, "text": text})
    return _from_template(target, url, message, secrets)


def filled(text: str, secrets: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
    """Return `text` with each `${NAME}` replaced by its value. Raises MissingValueError."""
    missing = [name for name in SECRET.findall(text) if name not in secrets]
    if missing:
        raise MissingValueError(f"secret {missing[0]} has no value here")
    return SECRET.sub(lambda match: escape(secrets[match[1]].strip()), text)


def _ntfy(url: str, message: Message) -> HttpRequest:
    priority = "high" if message.event in _URGENT else "default"
    headers = {"Title": _header(message.title), "Priority": priority, "User-Agent": _AGENT}
    return HttpRequest(url, "POST", headers, message.text.encode("utf-8", "replace"))


def _header(text: str) -> str:
    """Return text as RFC 2047 has it, unless it is ASCII."""
    if text.isascii() and text.isprintable():
        return text
    return f"=?UTF-8?B?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json(url: str, value: object) -> HttpRequest:
    headers = {"Content-Type": "application/json", "User-Agent": _AGENT}
    return HttpRequest(url, "POST", headers, json.dumps(value).encode("utf-8", "replace"))


def _from_template(
    target: AlertTarget, url: str, message: Message, secrets: Mapping[str, str]
) -> HttpRequest:
    url = _with_fields(url, message, lambda text: urllib.parse.quote(text, safe=""))
    if target.method == "GET":
        given = {name: filled(value, secrets) for name, value in target.headers.items()}
        return HttpRequest(url, "GET", {"User-Agent": _AGENT, **given}, None)
    if not target.body:
        request = _json(url, message._asdict())
    else:
        is_json = target.body.lstrip().startswith(("{", "["))
        escape: Callable[[str], str] = _in_json if is_json else str
        # secrets first: what a program printed must never be taken for a reference to one
        body = _with_fields(filled(target.body, secrets, escape), message, escape)
        kind = "application/json" if is_json else "text/plain; charset=utf-8"
        headers = {"Content-Type": kind, "User-Agent": _AGENT}
        request = HttpRequest(url, target.method, headers, body.encode("utf-8", "replace"))
    own = {name: filled(value, secrets) for name, value in target.headers.items()}
    named = {name.lower() for name in own}
    kept = {name: value for name, value in request.headers.items() if name.lower() not in named}
    return request._replace(method=target.method, headers={**kept, **own})


def _with_fields(text: str, message: Message, escape: Callable[[str], str]) -> str:
    values = message._asdict()
    return _FIELD.sub(lambda match: escape(values[match[1]]), text)


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]
