"""Start of a program through a node's login shell, whichever it is and whatever its start-up files do.

sshd passes every command to the user's login shell, whose start-up files run first. They may print, read
standard input, or replace the shell by another one (`exec zsh`), which then reads commands from standard
input. So the program waits for a handshake: it prints a marker, and no important data is sent before it.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import time
from typing import Protocol, Self

from torchdeck.nodes.ssh.errors import SshError, UnansweredError, UnreachableError
from torchdeck.nodes.ssh.remote_process import RemoteProcess
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck.shown_text import shown_line

NOISE_LIMIT = 64 * 1024
"""Maximum bytes that start-up files may print."""
SPARE_LINES = 32
"""Empty lines for start-up files that read standard input."""
QUOTED = 300
"""Bytes of the output that an error quotes."""
_NO_LOGIN = b"account is currently not available"
"""Printed by nologin of util-linux and of shadow."""


class LoginShellError(SshError):
    """The account's login shell does not run commands; the message names the shell if it is known."""

    lasts = True


class Starts(Protocol):
    """Subset of `Connection` that is used."""

    target: SshTarget

    def start(self, line: str, limit: float = ...) -> RemoteProcess:
        """Start a shell line."""


def start_in_shell(connection: Starts, script: str, limit: float) -> RemoteProcess:
    """Run `script` in the node's login shell, or in sh if that one reads another language (tcsh, fish).

    Args:
        connection: connection to the node.
        script: for a POSIX shell; it gets the process's standard input and output from their first byte.
        limit: timeout in seconds until the script begins.

    Raises:
        LoginShellError: the account has no shell that runs commands, or its start-up files end it.
        UnansweredError: the script did not begin within `limit` seconds.
        UnreachableError: the connection was lost.
    """
    deadline = time.monotonic() + limit
    shake = _Handshake.make()
    line = neutral_line(shake.script(script))
    process = connection.start(line, limit)
    try:
        # after `exec zsh` that shell reads its commands from here
        with contextlib.suppress(UnreachableError):  # it may have ended: reading reports why
            process.write(b"\n" * SPARE_LINES + line.encode("ascii") + b"\n")
        _await_marker(process, connection.target, shake.ready, deadline, limit)
        process.write(shake.go.encode("ascii") + b"\n")
    except BaseException:
        process.close()
        raise
    return process


def neutral_line(script: str) -> str:
    """Return a line that runs the POSIX `script` in bash, zsh, ksh, dash, tcsh and fish.

    The first four run it themselves, so that functions of their start-up files (`module`) are available.
    tcsh and fish set `version`, which the others do not, and pass it to sh. Base64 is the same in all shells.
    """
    text = base64.b64encode(script.encode("utf-8")).decode("ascii")
    run = f'eval "`echo {text} | base64 -d`"'
    return f"test -n \"$version\" && exec /bin/sh -c '{run}'; {run}"


class _Handshake:
    """Marker that the node prints when it is ready, and the reply that it waits for."""

    def __init__(self, token: str) -> None:
        self.ready = f"torchdeck-ready-{token}"
        self.go = f"torchdeck-go-{token}"

    @classmethod
    def make(cls) -> Self:
        return cls(secrets.token_hex(16))

    def script(self, then: str) -> str:
        """Return `then` to run after both sides are through; `read` takes no byte beyond its line."""
        return (
            f"printf '\\n%s\\n' {self.ready}\n"
            f'while IFS= read -r torchdeck_line && [ "$torchdeck_line" != {self.go} ]; do :; done\n'
            f"unset torchdeck_line\n{then}\n"
        )


def _await_marker(
    process: RemoteProcess, target: SshTarget, marker: str, deadline: float, limit: float
) -> None:
    needle, printed = f"\n{marker}\n".encode("ascii"), b""
    while needle not in printed:
        try:
            data = process.read(65536, max(0.0, deadline - time.monotonic()))
        except UnansweredError:
            raise UnansweredError(
                target.name,
                f"its login shell ran no command within {limit:g} s{_quoted(printed + process.stderr)}. Do "
                "its start-up files (such as ~/.bashrc, ~/.zshenv) read standard input or wait for "
                "user input? "
                "Skip that part there if the shell is not interactive",
            ) from None
        if not data:
            raise _ended(process, target, printed)
        printed += data
        if len(printed) > NOISE_LIMIT:
            raise LoginShellError(
                target.name,
                f"its login shell prints endlessly{_quoted(printed)}. Look at its start-up files, such as "
                "~/.bashrc",
            )


def _ended(process: RemoteProcess, target: SshTarget, printed: bytes) -> LoginShellError:
    said, code = printed + process.stderr, process.exit_code
    user = target.user or "its user"
    help_ = f"`getent passwd {user}` there shows its shell; `chsh -s /bin/bash {user}` gives it another one"
    if _NO_LOGIN in said:
        return LoginShellError(
            target.name,
            f"the login shell of {user} is nologin, which runs no commands{_quoted(said)}. {help_}",
        )
    if not said.strip():
        return LoginShellError(
            target.name,
            f"the login shell of {user} ended at once and printed nothing (exit code {code}), as /bin/false "
            f"does: it runs no command. {help_}",
        )
    return LoginShellError(
        target.name,
        f"the login shell of {user} ended before it ran a command (exit code {code}){_quoted(said)}. Look at "
        "its start-up files, such as ~/.bashrc",
    )


def _quoted(said: bytes) -> str:
    """Return the end of the output, in brackets; empty if there is none."""
    words = shown_line(said[-QUOTED:].decode("utf-8", "replace"))
    return f" (it printed: {words})" if words else ""
