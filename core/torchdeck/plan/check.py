"""Preflight result: one check, its verdict, and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import GENERAL_PAGE, Refusal

Status = Literal["ok", "warning", "failed"]
_SSH = "trouble/failed#a-node-is-not-reachable"
_DISK = "trouble/failed#the-disk-is-full"
PAGES = {
    "address": _SSH,
    "alerts": "alerts#targets",
    "login": _SSH,
    "ssh": _SSH,
    "host name": _SSH,
    "nodes": "machines#the-node-inventory",
    "clock": "machines#checks-before-the-launch",
    "connections": "trouble/hangs#connections",
    "port": "trouble/failed#a-port-is-taken",
    "ports": "trouble/failed#a-port-is-taken",
    "devices": "trouble/failed#a-device-is-in-use",
    "memory": "trouble/does-not-fit#make-it-fit",
    "shared memory": "trouble/failed#shared-memory-is-full",
    "pairs": "machines#slow-nodes-links-and-gpus",
    "disk speed": "machines#disks",
    "open files": "machines#limits-and-variables",
    "locked memory": "machines#limits-and-variables",
    "variables": "machines#limits-and-variables",
    "disk": _DISK,
    "home": "index#where-runs-are-stored",
    "trust": "recipes#trust",
    "permissions": "recipes#trust",
    "recipe": "recipes#your-own-model",
    "code": "start/script#your-code-a-copy-per-run",
    "data": "data#batch-plans",
    "resume": "checkpoints#resume",
    "shared files": "elastic#checkpoints-without-a-shared-file-system",
    "torch": "trouble/failed#a-package-is-missing",
    "deepspeed": "recipes#strategies",
    "orphans": "machines#during-the-run",
}
"""Check → the documentation page that helps."""


@dataclass(frozen=True)
class Check:
    """One check before the start."""

    name: str
    status: Status
    node: str
    """Checked node; the controller's own side is `localhost` too."""
    what: str
    """Finding, as one sentence without the final full stop; it does not begin with the node's name."""
    fix: str = ""
    """How to fix it; empty if all is well."""

    def __str__(self) -> str:
        """Return it as standalone text: a node that is not this machine is named."""
        what = self.what if self.node == LOCALHOST else f"node {self.node}: {self.what}"
        return f"{what}: {self.fix}" if self.fix else what

    def refusal(self) -> Refusal:
        """Return why the run does not start, if the check has failed."""
        node = "" if self.node == LOCALHOST else self.node
        return Refusal(self.what, fix=self.fix, node=node, page=self.page)

    @property
    def page(self) -> str:
        """Documentation page that helps; empty if there is nothing to do."""
        return PAGES.get(self.name, GENERAL_PAGE) if self.fix else ""

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain values."""
        return asdict(self)


def ok(name: str, node: str, what: str) -> Check:
    """Return a passed check."""
    return Check(name, "ok", node, _unnamed(node, what))


def warning(name: str, node: str, what: str, fix: str) -> Check:
    """Warning: the run still starts."""
    return Check(name, "warning", node, _unnamed(node, what), fix)


def failed(name: str, node: str, what: str, fix: str) -> Check:
    """Return a failed check: the run would fail, so it does not start."""
    return Check(name, "failed", node, _unnamed(node, what), fix)


def _unnamed(node: str, what: str) -> str:
    """Remove the node from a connection error, which begins with it: a displayed check names it already."""
    begin = f"node {node}"
    for end in (": ", " "):
        if what.startswith(begin + end):
            return what[len(begin + end) :]
    return what


class PreflightError(Refusal):
    """A problem would stop the run or make it hang; `.checks` has the details. Nothing was started."""

    def __init__(self, checks: Sequence[Check]) -> None:
        super().__init__("; ".join(str(check) for check in checks))
        self.checks = tuple(checks)

    def parts(self) -> tuple[Refusal, ...]:
        return tuple(check.refusal() for check in self.checks)


# Errors for configs that are valid but do not fit the machines.


class PlanError(ConfigError):
    """The config cannot be planned on these machines; `.problems` lists every reason."""

    is_usage = False


def problem(path: str, wrong: str, right: str) -> Problem:
    """Return a problem with key `path`. A plan knows no files, so the caller locates the key in a file."""
    return Problem(path=path, file="", line=None, wrong=wrong, right=right)
