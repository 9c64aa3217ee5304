"""Requests to known services and by templates, by values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.alert_values import MESSAGE
from torchdeck.agent.alerts.http_request import MissingValueError, filled, http_request
from torchdeck.agent.alerts.message import without_secrets
from torchdeck.contract.plan.alert_plan import AlertTarget

SECRETS = {"KEY": "s3cr3t", "CHAT": "-42"}


def test_ntfy_gets_title_and_urgency_as_headers() -> None:
    """A title that is not ASCII is encoded as RFC 2047 says."""
    target = AlertTarget("ntfy", "https://ntfy.sh/${KEY}")
    request = http_request(target, MESSAGE, SECRETS)
    assert (request.url, request.method) == ("https://ntfy.sh/s3cr3t", "POST")
    assert (request.headers["Title"], request.headers["Priority"]) == ("tiny failed", "high")
    assert request.body == MESSAGE.text.encode()
    other = http_request(target, MESSAGE._replace(title="größe", event="ended"), SECRETS)
    assert (other.headers["Title"], other.headers["Priority"]) == ("=?UTF-8?B?Z3LDtsOfZQ==?=", "default")


def test_slack_discord_and_telegram_get_their_json() -> None:
    """Slack's special characters are escaped; a message on Discord mentions no one."""
    slack = http_request(AlertTarget("slack", "${KEY}"), MESSAGE, {"KEY": "https://h/s"})
    text = '*tiny failed*\nValueError: "no" &amp; &lt;nothing&gt;\nState: FAILED'
    assert (slack.url, json.loads(slack.body or b"")) == ("https://h/s", {"text": text})
    long = MESSAGE._replace(text="x" * 5000)
    discord = json.loads(http_request(AlertTarget("discord", "${KEY}"), long, SECRETS).body or b"")
    assert discord["content"].startswith("**tiny failed**\nxxx")
    assert len(discord["content"]) == 2000
    assert discord["allowed_mentions"] == {"parse": []}
    bot = {"KEY": "12:s3-cr_3t", "CHAT": "-42"}
    telegram = http_request(AlertTarget("telegram", "${KEY}", ("${CHAT}",)), MESSAGE, bot)
    assert telegram.url == "https://api.telegram.org/bot12:s3-cr_3t/sendMessage"
    assert json.loads(telegram.body or b"")["chat_id"] == "-42"


@pytest.mark.parametrize("token", ["s3cr3t", "1:a/setMyDescription?x=", "1:", "1:a#", "bot1:a"])
def test_what_is_no_token_of_a_bot_is_not_sent(token: str) -> None:
    """The message does not quote it."""
    with pytest.raises(MissingValueError, match="not the token of a bot") as refused:
        http_request(AlertTarget("telegram", "${BOT}", ("-42",)), MESSAGE, {"BOT": token})
    assert token not in str(refused.value)


def test_a_template_has_method_headers_and_body() -> None:
    """Values are escaped for where they stand; own headers replace ours."""
    target = AlertTarget(
        "webhook",
        "https://h/${KEY}?t=@{title}",
        method="PUT",
        headers={"Authorization": "Bearer ${KEY}", "content-type": "application/x"},
        body='{"m": "@{error}", "s": @{step}, "k": "${KEY}", "other": "@{nothing}"}',
    )
    request = http_request(target, MESSAGE, SECRETS)
    assert (request.url, request.method) == ("https://h/s3cr3t?t=tiny%20failed", "PUT")
    assert request.headers["Authorization"] == "Bearer s3cr3t"
    assert {name.lower(): value for name, value in request.headers.items()}["content-type"] == "application/x"
    expected = {"m": MESSAGE.error, "s": 12, "k": "s3cr3t", "other": "@{nothing}"}
    assert json.loads(request.body or b"") == expected
    usual = http_request(AlertTarget("webhook", "https://h"), MESSAGE, {})
    assert json.loads(usual.body or b"") == MESSAGE._asdict()
    got = http_request(AlertTarget("webhook", "https://h?@{event}", method="GET"), MESSAGE, {})
    assert (got.url, got.body) == ("https://h?failed", None)


@given(st.text())
def test_no_text_breaks_json_or_reads_a_secret(text: str) -> None:
    """What a program prints is data, also `${KEY}`."""
    target = AlertTarget("webhook", "https://h/@{error}", body='["@{error}"]')
    request = http_request(target, MESSAGE._replace(error=text), SECRETS)
    assert json.loads(request.body or b"") == [text.encode("utf-8", "replace").decode()]
    assert "s3cr3t" not in request.url
    reference = http_request(target, MESSAGE._replace(error="${KEY}"), SECRETS)
    assert json.loads(reference.body or b"") == ["${KEY}"]


def test_a_secret_without_a_value_is_named() -> None:
    """Before anything is sent; a newline at the end of a value is none of it."""
    with pytest.raises(MissingValueError, match="secret KEY has no value"):
        http_request(AlertTarget("slack", "${KEY}"), MESSAGE, {})
    assert filled("a${KEY}b", {"KEY": "x\n"}) == "axb"


def test_secrets_and_long_parts_of_secret_addresses_are_masked() -> None:
    """Words in an address are words in a message, too."""
    secrets = {"A": "https://hooks.example.org/services/T0/0123456789abcdef?x=y", "B": "key1", "C": "abc"}
    text = "services abc key1 0123456789abcdef https://hooks.example.org/services/T0/0123456789abcdef?x=y"
    assert without_secrets(text, secrets) == "services abc *** *** ***"
    assert without_secrets("services", secrets, 4) == "***"
