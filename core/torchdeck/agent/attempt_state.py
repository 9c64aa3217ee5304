"""What the gang knows of the attempt that runs now."""

from __future__ import annotations

from enum import Enum

from torchdeck.agent.events import Failure
from torchdeck.plan.elastic import Place


class Ending(Enum):
    """How far the ending of an attempt has gone."""

    STOP_FILE = 1
    TERM = 2
    KILL = 3


class AttemptState:
    """One start of the gang: which nodes are in which part of their life."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.launched: set[str] = set()
        self.up: set[str] = set()
        self.progressed = False
        self.announced = False
        self.codes: dict[str, int | None] = {}
        """torchrun's exit code by node, once it is gone; None when nobody saw it."""
        self.completed: dict[str, bool] = {}
        self.clean: set[str] = set()
        self.killed = 0
        self.left = 0
        self.port_lost = False
        self.hang = ""
        """Why the attempt is ended for a restart."""
        self.hung: int | None = None
        """The rank that stands still then."""
        self.gone: Place | None = None
        """A place whose device is not there any more."""
        self.gone_why = ""
        self.failed_node: str | None = None
        """The first whose torchrun failed."""
        self.ending: Ending | None = None
        self.failure: Failure | None = None

    def add_failure(self, failure: Failure) -> None:
        """Keep the earliest; a rank's own failure explains more than torchrun's."""
        if self.failure is None or _order(failure) < _order(self.failure):
            self.failure = failure

    def first_code(self) -> int | None:
        """The first exit code of a torchrun that is not 0."""
        return next((code for code in self.codes.values() if code != 0), None)

    def outcome(self, *, stopped: bool, cooperative: bool) -> str:
        """`succeeded`, `stopped` or `failed`.

        A run that came to its end before the stop reached it succeeded. A recipe's ranks exit with 0 for a
        stop too, so they must say that they did all their steps; torchrun never exits with 0 after SIGTERM.
        """
        whole = all(code == 0 for code in self.codes.values())
        if whole and (not stopped or not cooperative or all(self.completed.values())):
            return "succeeded"
        return "stopped" if stopped else "failed"


def _order(failure: Failure) -> tuple[bool, float]:
    return failure.rank is None, failure.time
