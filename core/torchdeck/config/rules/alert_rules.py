"""Rules on alerts: secrets stay out of the file, and each target has what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from torchdeck.config.alerts.alert_table import EVENTS
from torchdeck.config.problems import shown
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.spelling import nearest
from torchdeck.config.toml.document import KeyPath
from torchdeck.contract.plan.alert_plan import SECRET

_TOKEN: KeyPath = ("alerts", "telegram", "token")
_URL: KeyPath = ("alerts", "webhook", "url")
_ADDRESS = re.compile(r"[^\s@,;:<>\"\\${}]+@[^\s@,;:<>\"\\${}]+")
_SECRET_HEADER = re.compile(r"(?i)authorization|proxy-authorization|cookie|.*(?:key|token|secret|password).*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PASSWORD = re.compile(r"[a-z]+://[^/@$]+@")
_REFERENCE = re.compile(r"\$(?!\{[A-Za-z_][A-Za-z0-9_]*\})")


def events(given: Given) -> Iterator[Finding]:
    """Events are known, and each is listed once."""
    listed = given.config.alerts.on
    for index, name in enumerate(listed):
        if name not in EVENTS:
            right = " or ".join(map(shown, nearest(name, EVENTS) or EVENTS))
            yield Finding(("alerts", "on", index), f"{shown(name)} is not an event", right)
        elif name in listed[:index]:
            yield Finding(("alerts", "on", index), f"{shown(name)} is listed twice", "each event once")


def secret_addresses(given: Given) -> Iterator[Finding]:
    """An address that is a secret is a reference to a variable, as run.toml is stored with each run."""
    alerts = given.config.alerts
    secret = (
        (("alerts", "slack"), alerts.slack),
        (("alerts", "discord"), alerts.discord),
        (_TOKEN, alerts.telegram.token),
    )
    for path, text in secret:
        found = SECRET.fullmatch if path == _TOKEN else SECRET.search
        if text is not None and found(text) is None:
            wrong = "it is a secret, and the run file is stored with each run"
            yield Finding(
                path, wrong, f'"${{{_variable(path)}}}", with the value in that environment variable'
            )
    for name, value in alerts.webhook.headers.items():
        header: KeyPath = ("alerts", "webhook", "headers", name)
        if _HEADER.fullmatch(name) is None or "\n" in value or "\r" in value:
            yield Finding(
                header, f"{shown(name)} is not a header", "a name of letters, digits and -, one line"
            )
        elif _SECRET_HEADER.fullmatch(name) and SECRET.search(value) is None:
            wrong = "it is a secret, and the run file is stored with each run"
            yield Finding(header, wrong, '"Bearer ${ALERT_KEY}", with the value in that environment variable')


def addresses(given: Given) -> Iterator[Finding]:
    """Addresses are those of HTTP, without a password in them."""
    alerts = given.config.alerts
    places = (("alerts", "ntfy"), alerts.ntfy), (_URL, alerts.webhook.url)
    others = (("alerts", "slack"), alerts.slack), (("alerts", "discord"), alerts.discord)
    for path, text in (*places, *others):
        if text is None:
            continue
        if _REFERENCE.search(text):
            yield Finding(path, "a $ in it refers to no variable", "a reference such as ${ALERT_KEY}")
        elif not text.startswith(("http://", "https://", "${")) or any(letter.isspace() for letter in text):
            yield Finding(path, "it is not an address of HTTP", "an address that begins with https://")
        elif _PASSWORD.match(text):
            wrong = "it contains a password, and the run file is stored with each run"
            yield Finding(path, wrong, "an address with ${NAME} in place of the password")


def mail(given: Given) -> Iterator[Finding]:
    """Mail has addresses."""
    alerts = given.config.alerts
    for index, address in enumerate(alerts.email):
        if _ADDRESS.fullmatch(address) is None:
            wrong = f"{shown(address)} is not an address"
            yield Finding(("alerts", "email", index), wrong, 'an address such as "me@example.org"')


def telegram(given: Given) -> Iterator[Finding]:
    """A bot needs a chat to write to, and a chat a bot."""
    bot = given.config.alerts.telegram
    if (bot.token is None) == (bot.chat is None):
        return
    missing = "chat" if bot.chat is None else "token"
    there = "token" if bot.chat is None else "chat"
    wrong = f"{missing} is not set: nothing can be sent"
    yield Finding(("alerts", "telegram", there), wrong, f"alerts.telegram.{missing} too", (("alerts",),))


def webhook(given: Given) -> Iterator[Finding]:
    """Parts of a request have an effect only with its address."""
    hook = given.config.alerts.webhook
    for name in ("method", "headers", "body"):
        path: KeyPath = ("alerts", "webhook", name)
        if hook.url is None and given.written(path):
            yield Finding(
                path, "it has no effect without url", f"alerts.webhook.url too, or no {name}", (_URL,)
            )
    if hook.method == "GET" and hook.body is not None:
        path = ("alerts", "webhook", "body")
        yield Finding(path, "a GET request has no body", 'no body, or method = "POST"', (_URL,))


def end_by(given: Given) -> Iterator[Finding]:
    """A time to end by is a date and a time."""
    text = given.config.alerts.end_by
    if text is None:
        return
    try:
        datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        right = 'a date and time, such as "2027-01-31 08:00"'
        yield Finding(("alerts", "end_by"), f"{shown(text)} is not a date and time", right)


def _variable(path: KeyPath) -> str:
    names = {"slack": "SLACK_WEBHOOK", "discord": "DISCORD_WEBHOOK"}
    return names.get(str(path[1]), "TELEGRAM_TOKEN")


ALERT_RULES: tuple[Rule, ...] = (
    events,
    secret_addresses,
    addresses,
    mail,
    telegram,
    webhook,
    end_by,
)
