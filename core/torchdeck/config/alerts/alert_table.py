"""The [alerts] table: events of a run that are reported, and to whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from torchdeck.config.values.numbers import ByteSize
from torchdeck.contract.plan.alert_plan import SECRET, AlertEvent, AlertTarget, TargetKind
from torchdeck.options import Section, option, table

EVENTS = tuple(event.value for event in AlertEvent if event is not AlertEvent.TEST)
"""Names of events that a run file can list."""
_OWN_HOST = re.compile(rf"{SECRET.pattern}(?:[/?].*)?")
"""An address whose host the variable itself names."""


class Telegram(Section):
    """The [alerts.telegram] table: a bot and the chat that it writes to."""

    token: str | None = option(
        "Token of the bot, as a reference to an environment variable. Default: nothing is sent to Telegram.",
        default=None,
        min_length=1,
        right='a reference to an environment variable, such as "${TELEGRAM_TOKEN}"',
    )
    chat: str | None = option(
        "Id of the chat, or the name of a channel.",
        default=None,
        min_length=1,
        right='a number as text, or a name such as "@my_channel"',
    )


class Webhook(Section):
    """The [alerts.webhook] table: an HTTP request of any form."""

    url: str | None = option(
        "Address of the request. ${NAME} stands for the value of an environment variable. Default: "
        "no request.",
        label="URL",
        default=None,
        min_length=1,
        right='an address such as "https://example.org/alerts?key=${ALERT_KEY}"',
    )
    method: Literal["POST", "PUT", "PATCH", "GET"] = option("Method of the request.", default="POST")
    headers: dict[str, str] = option(
        "Headers of the request. ${NAME} stands for the value of an environment variable.",
        default={},
        right='a table of strings, such as {Authorization = "Bearer ${ALERT_KEY}"}',
    )
    body: str | None = option(
        "Body of the request. @{title}, @{text}, @{event}, @{name}, @{run}, @{host}, @{state}, @{step}, "
        "@{loss} and @{error} stand for the alert; in a JSON body they are escaped. "
        "Default: a JSON object with all of them.",
        default=None,
        right="""a text such as '{"message": "@{text}"}'""",
    )


class Alerts(Section):
    """The [alerts] table: messages about a run, sent from the node of the leader, also without a desktop."""

    on: list[str] = option(
        "Events that are reported. ended: the run succeeded or was stopped. failed: it failed, or restarts "
        "after a failure. hang: ranks make no progress. not_finite: the loss is NaN or infinite. no_best: "
        "evaluations do not improve. disk: little space is left. late: it will end later than planned. "
        "queued: it waits long for devices.",
        label="Events",
        default=list(EVENTS),
        right='a list of events, such as ["failed", "hang"]',
    )
    desktop: bool = option(
        "Show alerts on the desktop of the first node, if it has a session bus and notify-send.",
        label="Desktop notification",
        default=False,
    )
    email: list[str] = option(
        "Addresses that alerts are mailed to, by sendmail on the first node.",
        label="E-mail",
        default=[],
        right='a list of addresses, such as ["me@example.org"]',
    )
    ntfy: str | None = option(
        "Address of a topic on ntfy.sh or another ntfy server. Who knows a topic can read it: use a "
        "reference to an environment variable for a private one.",
        label="Topic on ntfy",
        default=None,
        min_length=1,
        right='a reference to an environment variable, such as "${NTFY_URL}", or an address',
    )
    slack: str | None = option(
        "Incoming webhook of Slack or Mattermost, as a reference to an environment variable.",
        default=None,
        min_length=1,
        right='a reference to an environment variable, such as "${SLACK_WEBHOOK}"',
    )
    discord: str | None = option(
        "Webhook of a Discord channel, as a reference to an environment variable.",
        default=None,
        min_length=1,
        right='a reference to an environment variable, such as "${DISCORD_WEBHOOK}"',
    )
    interval: float = option(
        "Shortest time between two alerts of one kind. The end of a run is always reported.",
        label="Pause between alerts",
        default=600.0,
        unit="s",
        ge=0,
        le=2_592_000,
        group="when",
    )
    no_best: int = option(
        "Evaluations without a new best value of checkpoint.best_metric before an alert.",
        label="Without a new best",
        default=10,
        unit="evaluations",
        ge=1,
        group="when",
    )
    late_factor: float = option(
        "An alert is sent if the run will take this many times as long as it was expected to take after its "
        "first minute.",
        label="Late by a factor of",
        default=1.5,
        gt=1,
        le=1000,
        group="when",
    )
    end_by: str | None = option(
        "Time by which the run should have ended: an alert is sent as soon as it will not. "
        "Default: no such time.",
        label="Should end by",
        default=None,
        right='a date and time of this machine, such as "2027-01-31 08:00"',
        group="when",
    )
    queued: float = option(
        "Time that a run waits for devices before an alert.",
        label="Queued for",
        default=3600.0,
        unit="s",
        ge=0,
        le=2_592_000,
        group="when",
    )
    free_disk: ByteSize = option(
        "Free disk space of the run directory below which an alert is sent; limits.min_free_disk stops "
        "the run.",
        label="Free disk space",
        default=2 * 2**30,
        unit="bytes",
        ge=0,
        right='a size with its unit, such as "10GiB", or a number of bytes',
        group="when",
    )
    telegram: Telegram = table(Telegram, "A bot of Telegram and the chat that it writes to.")
    webhook: Webhook = table(Webhook, "An HTTP request of any form.")

    @property
    def targets(self) -> tuple[AlertTarget, ...]:
        """Return the targets that are set."""
        return tuple(self._targets())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of environment variables that targets refer to, sorted."""
        return tuple(sorted(frozenset().union(*(target.secrets for target in self.targets))))

    @property
    def sends_secrets(self) -> bool:
        """Return whether the value of a variable is sent to a host that the run file names."""
        return any(target.secrets and not _OWN_HOST.fullmatch(target.url) for target in self.targets) or (
            # of a bot only the token may be a secret without a question: agents check its form
            SECRET.search(self.telegram.chat or "") is not None
        )

    @property
    def end_by_time(self) -> float | None:
        """Return `end_by` in unix seconds; None if it is not set. Raises ValueError if it is no time."""
        return None if self.end_by is None else datetime.fromisoformat(self.end_by).timestamp()

    def _targets(self) -> Iterator[AlertTarget]:
        if self.desktop:
            yield AlertTarget(TargetKind.DESKTOP.value)
        if self.email:
            yield AlertTarget(TargetKind.EMAIL.value, to=tuple(self.email))
        for kind, url in (
            (TargetKind.NTFY, self.ntfy),
            (TargetKind.SLACK, self.slack),
            (TargetKind.DISCORD, self.discord),
        ):
            if url is not None:
                yield AlertTarget(kind.value, url)
        if self.telegram.token is not None:
            chat = self.telegram.chat
            yield AlertTarget(TargetKind.TELEGRAM.value, self.telegram.token, () if chat is None else (chat,))
        if self.webhook.url is not None:
            hook = self.webhook
            yield AlertTarget(
                TargetKind.WEBHOOK.value,
                self.webhook.url,
                method=hook.method,
                headers=dict(hook.headers),
                body=hook.body or "",
            )
