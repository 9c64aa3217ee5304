"""Commands in an SSH config, and whether they may run.

Commands in files that ssh reads by itself, and in their includes, are the user's own unless others can write
the file. Commands in any other file run only once it is trusted, by its content.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torchdeck.config.values.node_names import host_fault, user_fault
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.trust.trust_list import TrustError, TrustList
from torchdeck.trust.writers import other_writers

_EXEC_LIMIT = 20.0
"""Timeout in seconds for the command of a `Match exec`; ssh itself would wait forever."""
MATCH_EXEC = "match exec"
"""Key that represents a Match line whose command may not run: no line of a file has a key with a blank."""
REFUSED = "torchdeck does not run it: "
"""Prefix of the text that replaces a ProxyCommand that may not run."""


@dataclass(frozen=True)
class CommandGate:
    """Decides which commands may run; without a trust list, only the user's own."""

    trusted: TrustList | None = None

    def checked(
        self, settings: Iterable[tuple[str, str]], file: Path, *, own: bool
    ) -> Iterator[tuple[str, str]]:
        """Yield the settings of a file, with each command that may not run replaced by the reason.

        Args:
            settings: keys in lower case, and values.
            file: file that contains them.
            own: it is a file that ssh reads by itself, or is included by one.
        """
        refusal: str | None = None
        for key, value in settings:
            runs = _matches_by_command(value) if key == "match" else key == "proxycommand"
            if runs and refusal is None:
                refusal = self._refusal(file, own=own)
            if not runs or not refusal or value.casefold() == "none":
                yield key, value
            elif key == "match":
                yield MATCH_EXEC, f"`Match {value}` may not run its command, as {refusal}"
            else:
                yield key, f"{REFUSED}its ProxyCommand may not run, as {refusal}"

    def _refusal(self, file: Path, *, own: bool) -> str:
        """Return why no command in `file` may run; empty if they may."""
        try:
            writers = other_writers(file)
            if writers is not None:
                return f"{file} cannot be trusted: {writers}"
            if own:
                return ""
            standing = None if self.trusted is None else self.trusted.standing(file)
        except (OSError, TrustError) as error:
            return str(error)
        if standing is not None and standing.trusted:
            return ""
        again = f" ({standing.changed})" if standing is not None and standing.changed else ""
        return f"{file} is not trusted yet{again}: read it, then `torchdeck trust add {file}`"


def _matches_by_command(value: str) -> bool:
    """Return whether the value of a Match may have a criterion `exec`, in whatever quotes and case.

    The words are those that paramiko finds. Any of them counts, as parameters are hard to tell from criteria.
    """
    try:
        words = shlex.split(value)
    except ValueError:
        return True
    return any(word.lstrip("!").partition("=")[0].casefold() == "exec" for word in words)


def check_names(name: str, host: str, user: str, port: object = 22) -> None:
    """Raise TargetError if host, user or port is not allowed in a command.

    Args:
        name: display name of the host.
        host: its name or address.
        user: login user.
        port: port of its sshd, as written.
    """
    for what, value, fault in (
        ("host name", host, host_fault(host)),
        ("user's name", user, user_fault(user)),
        ("port", port, "" if str(port).isdecimal() else "it is not a number"),
    ):
        if fault:
            raise TargetError(name, f"{value!r} is no {what}: {fault}")


def run_match_exec() -> None:
    """Let paramiko run the command of a `Match exec` as ssh does; its own way reads the terminal's input."""
    import paramiko.config

    paramiko.config.invoke = _Commands  # type: ignore[attr-defined, unused-ignore]


class _Ended(NamedTuple):
    ok: bool
    """Whether it exited with 0."""


class _Commands:
    """Subset of invoke that paramiko calls."""

    @staticmethod
    def run(command: str, **_options: object) -> _Ended:
        """Run a shell line, as ssh does: without input, its output discarded. Raises ValueError."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=_EXEC_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(
                f"the command of a `Match exec` ({command}) ran longer than {_EXEC_LIMIT:g} s"
            ) from None
        except OSError as error:
            raise ValueError(f"the command of a `Match exec` cannot be started: {error.strerror}") from error
        return _Ended(done.returncode == 0)
