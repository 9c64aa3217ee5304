"""The one family of user-facing errors: fields, which each front end renders in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

GENERAL_PAGE = "trouble/failed#refused-before-the-start"
"""Page for an error with a remedy whose kind has no page of its own."""


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the program
    """Refusal of a request.

    Attributes:
        what: what is wrong, as one sentence without its full stop.
        why: the reason, such as the operating system's message; empty if `what` has it.
        fix: what to do; empty if nothing is known to help.
        file: the file it is about, as the user would name it.
        line: in `file`, counted from 1.
        key: of a run file or the node inventory, `training.lr`.
        node: the node it is about.
    """

    is_usage: ClassVar[bool] = False
    """Whether the request itself is wrong (exit status 2), such as a config or the name of a run."""
    page: str = ""
    """Page of the documentation that helps, as `torchdeck docs` takes it: `checkpoints#resume`."""

    def __init__(
        self,
        what: object = "",
        why: object = "",
        fix: str = "",
        *,
        file: str = "",
        line: int | None = None,
        key: str = "",
        node: str = "",
        page: str = "",
    ) -> None:
        super().__init__(str(what))
        self.what = str(what)
        self.why = str(why or "")
        self.fix = fix
        self.file, self.line, self.key = file, line, key
        self.node = node
        self.page = page or self.page or (GENERAL_PAGE if fix else "")

    def __str__(self) -> str:
        """Return everything on one line: where, what, why, what to do."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        node = f"node {self.node}" if self.node else ""
        head = ": ".join(part for part in (place, self.key, node, self.finding) if part)
        return f"{head}: {self.fix}" if self.fix else head

    @property
    def finding(self) -> str:
        """Describe what is wrong, with the reason."""
        return f"{self.what} ({self.why})" if self.why else self.what

    def parts(self) -> tuple[Refusal, ...]:
        """Return each error, if there are several; else this alone."""
        return (self,)


class SeveralRefusals(Refusal):
    """It cannot be done for several reasons."""

    def __init__(self, parts: Sequence[Refusal]) -> None:
        super().__init__("; ".join(str(part) for part in parts))
        self._parts = tuple(parts)

    def parts(self) -> tuple[Refusal, ...]:
        return self._parts


def refusal_of(error: Exception) -> Refusal:
    """Return `error` itself, or a Refusal with the text of an error of another kind."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, OSError) and error.strerror:
        return Refusal(str(error.filename or "the system refused"), error.strerror)
    return Refusal(str(error) or type(error).__name__)
