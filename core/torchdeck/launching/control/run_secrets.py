"""Secrets of a run, and logins of its nodes, on their way to the controller: over pipes, and nowhere else."""

from __future__ import annotations

import json
import select
import stat
import sys
from collections.abc import Mapping
from os import fstat
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.refusal import Refusal

_TABLES = ("secrets", "logins")
READ_LIMIT = 10.0
"""Seconds in which whoever started the controller has written all of it."""


class MissingSecretError(Refusal):
    """A secret has no value; the message names it and says what to do."""

    page = "start/script#secrets"


class RunSecrets(NamedTuple):
    """Names and values."""

    names: frozenset[str]
    values: Mapping[str, str]

    def line(self, logins: Mapping[str, Any]) -> bytes:
        """What a controller reads on standard input; nothing where there is nothing to say."""
        if not self.values and not logins:
            return b""
        return json.dumps({"secrets": dict(self.values), "logins": logins}).encode() + b"\n"


class Entrusted(NamedTuple):
    """What a controller was handed by the front end that started it."""

    secrets: Mapping[str, str] = {}
    logins: Mapping[str, Any] = {}
    """As `Credentials.to_json` gives them."""


def run_secrets(layout: RunLayout, environ: Mapping[str, str], *, required: bool) -> RunSecrets:
    """The secrets that a run's plan names; none where its plan cannot be read. As `plan_secrets`."""
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError:
        return RunSecrets(frozenset(), {})
    return plan_secrets(plan, environ, required=required)


def plan_secrets(plan: LaunchPlan, environ: Mapping[str, str], *, required: bool) -> RunSecrets:
    """The secrets that a plan names, with their values.

    Args:
        plan: of the run.
        environ: variables that may hold the values.
        required: each must have one.

    Raises:
        MissingSecretError: one has none.
    """
    names = frozenset(name for node in plan.all_nodes for name in node.secrets)
    missing = sorted(names - environ.keys())
    if missing and required:
        raise MissingSecretError(
            f"run.secrets names {', '.join(missing)}, and no such variable is set here",
            fix=f"export {missing[0]}, then start again",
        )
    return RunSecrets(names, {name: environ[name] for name in sorted(names) if name in environ})


def read_entrusted() -> Entrusted:
    """What the front end wrote for this controller on standard input; empty where it is no pipe."""
    try:
        if not stat.S_ISFIFO(fstat(0).st_mode) or not select.select([0], [], [], READ_LIMIT)[0]:
            return Entrusted()
        value = json.loads(sys.stdin.buffer.readline() or b"{}")
    except (OSError, ValueError):
        return Entrusted()
    return entrusted_from(value)


def entrusted_from(value: object) -> Entrusted:
    """What JSON says that was made of a table with `secrets` and `logins`; empty where it is none."""
    if not isinstance(value, dict):
        return Entrusted()
    secrets, logins = (found if isinstance(found := value.get(name), dict) else {} for name in _TABLES)
    return Entrusted({str(name): text for name, text in secrets.items() if isinstance(text, str)}, logins)
