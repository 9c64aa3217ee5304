"""A run's secrets and its nodes' logins, passed to the controller over pipes only."""

from __future__ import annotations

import ctypes
import json
import os
import select
import stat
import sys
from collections.abc import Mapping, Sequence
from os import fstat
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import HOME_VARIABLE, RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.processes import without_run_variables
from torchdeck.contract.refusal import Refusal

_TABLES = ("secrets", "logins")
READ_LIMIT = 10.0
"""Seconds within which the process that started the controller must write all of it."""


class MissingSecretError(Refusal):
    """A secret has no value; the message names it and how to set it.

    Attributes:
        names: of all that have none.
    """

    page = "start/script#secrets"

    def __init__(self, names: Sequence[str], source: str = "run.secrets") -> None:
        """Create the error; `source` is the part of the run file that names them."""
        self.names = tuple(names)
        unset = "this variable is" if len(names) == 1 else "these variables are"
        super().__init__(
            f"{source} names {', '.join(names)}, but {unset} not set here",
            fix=f"export {' '.join(names)}, then start again",
        )


class RunSecrets(NamedTuple):
    """Names and values."""

    names: frozenset[str]
    values: Mapping[str, str]

    def line(self, logins: Mapping[str, Any]) -> bytes:
        """Return a controller's standard input; empty if there is nothing to pass."""
        if not self.values and not logins:
            return b""
        return json.dumps({"secrets": dict(self.values), "logins": logins}).encode() + b"\n"


class HandedOver(NamedTuple):
    """Data handed over to a controller by the front end that started it."""

    secrets: Mapping[str, str] = {}
    logins: Mapping[str, Any] = {}
    """As returned by `Credentials.to_json`."""


def run_secrets(layout: RunLayout, environ: Mapping[str, str], *, required: bool) -> RunSecrets:
    """Return the secrets that a run's plan names, like `plan_secrets`; none if its plan cannot be read."""
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError:
        return RunSecrets(frozenset(), {})
    return plan_secrets(plan, environ, layout.home.root, required=required)


def plan_secrets(plan: LaunchPlan, environ: Mapping[str, str], home: Path, *, required: bool) -> RunSecrets:
    """Return the secrets that a plan names, with their values: from `environ`, else from the keyring.

    Args:
        plan: plan of the run.
        environ: variables that may hold the values.
        home: TORCHDECK_HOME, which lists what is in the keyring.
        required: each must have a value.

    Raises:
        MissingSecretError: one has none.
    """
    of_ranks = frozenset(name for node in plan.all_nodes for name in node.secrets)
    of_alerts = frozenset() if plan.alerts is None else plan.alerts.secrets
    names = of_ranks | of_alerts
    found = secret_values(names, environ, home, source="run.secrets", required=False)
    missing = sorted(names - found.keys())
    if missing and required:  # all at once, as a front end asks for them
        raise MissingSecretError(missing, "run.secrets" if of_ranks.intersection(missing) else "alerts")
    return RunSecrets(names, found)


def secret_values(
    names: frozenset[str], environ: Mapping[str, str], home: Path, *, source: str, required: bool
) -> dict[str, str]:
    """Return the values of secrets: from `environ`, else from the keyring.

    Args:
        names: names of environment variables.
        environ: variables that may hold the values.
        home: TORCHDECK_HOME, which lists what is in the keyring.
        source: the part of the run file that names them.
        required: each must have a value.

    Raises:
        MissingSecretError: one has none.
    """
    if names - environ.keys():
        from torchdeck.nodes.ssh.keyring_store import kept_secrets  # only if it is needed

        environ = {**kept_secrets(home, names - environ.keys()), **environ}
    missing = sorted(names - environ.keys())
    if missing and required:
        raise MissingSecretError(missing, source)
    return {name: environ[name] for name in sorted(names) if name in environ}


def read_handed_over() -> HandedOver:
    """Read what the front end wrote to this controller's standard input; empty if that is not a pipe."""
    try:
        if not stat.S_ISFIFO(fstat(0).st_mode) or not select.select([0], [], [], READ_LIMIT)[0]:
            return HandedOver()
        value = json.loads(sys.stdin.buffer.readline() or b"{}")
    except (OSError, ValueError):
        return HandedOver()
    return handed_over_from(value)


def handed_over_from(value: object) -> HandedOver:
    """Return the data from a JSON table with `secrets` and `logins`; empty if it is not such a table."""
    if not isinstance(value, dict):
        return HandedOver()
    secrets, logins = (found if isinstance(found := value.get(name), dict) else {} for name in _TABLES)
    return HandedOver({str(name): text for name, text in secrets.items() if isinstance(text, str)}, logins)


_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """Make this process not dumpable, so that no core dump, debugger or /proc/PID/mem shows its memory.

    Its `environ`, `fd` and `mem` in /proc belong to root from then on; `stat` and `cmdline` stay readable.
    Programs that it executes start out dumpable, so agents and ranks are not affected; forks are.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not keep this process from being dumped")


def controller_environment(home: Path, hidden: frozenset[str]) -> dict[str, str]:
    """Return this process's environment for a controller of runs in `home`, without the variables named
    `hidden`.
    """
    env = {**without_run_variables(os.environ), HOME_VARIABLE: str(home)}
    return {name: value for name, value in env.items() if name not in hidden}
