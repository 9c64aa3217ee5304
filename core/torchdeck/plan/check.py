"""What a preflight says: one check, its verdict, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at before the start."""

    name: str
    status: Status
    node: str
    """Where; the controller's own side is `localhost` too."""
    what: str
    """What was found, as one sentence without the last full stop; it does not begin with the node's name."""
    fix: str = ""
    """What to do about it; empty when all is well."""

    def __str__(self) -> str:
        """As it stands alone: a node that is not this machine is named."""
        what = self.what if self.node == LOCALHOST else f"node {self.node}: {self.what}"
        return f"{what}: {self.fix}" if self.fix else what

    def refusal(self) -> Refusal:
        """Why the run does not start, if it has failed."""
        return Refusal(self.what, fix=self.fix, node="" if self.node == LOCALHOST else self.node)

    def to_json(self) -> dict[str, Any]:
        """Its fields as plain values."""
        return asdict(self)


def ok(name: str, node: str, what: str) -> Check:
    """All is well."""
    return Check(name, "ok", node, _unnamed(node, what))


def warning(name: str, node: str, what: str, fix: str) -> Check:
    """The run starts all the same."""
    return Check(name, "warning", node, _unnamed(node, what), fix)


def failed(name: str, node: str, what: str, fix: str) -> Check:
    """The run would fail, so it does not start."""
    return Check(name, "failed", node, _unnamed(node, what), fix)


def _unnamed(node: str, what: str) -> str:
    """Errors of connections begin with their node, which whoever shows a check names already."""
    begin = f"node {node}"
    for end in (": ", " "):
        if what.startswith(begin + end):
            return what[len(begin + end) :]
    return what


class PreflightError(Refusal):
    """Something would stop the run or make it hang; `.checks` says what. Nothing was started."""

    def __init__(self, checks: Sequence[Check]) -> None:
        super().__init__("; ".join(str(check) for check in checks))
        self.checks = tuple(checks)

    def parts(self) -> tuple[Refusal, ...]:
        return tuple(check.refusal() for check in self.checks)
