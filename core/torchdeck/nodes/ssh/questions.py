"""User prompts required before a connection can be made.

A prompt is raised as an exception, shown with nothing open, and then connecting is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torchdeck.nodes.ssh.credentials import Asker, Credentials
from torchdeck.nodes.ssh.errors import HostKeyUnknownError
from torchdeck.nodes.ssh.host_keys import Verdict, fingerprint, judge, read_known, trust
from torchdeck.nodes.ssh.target import SshTarget

MOST_TRIES = 3
"""Wrong answers after which a prompt is not repeated, as in ssh."""


@dataclass
class Asked:
    """Prompts shown while one connection is being made, and the number of wrong answers."""

    node: str
    """Destination of the connection."""
    asker: Asker
    credentials: Credentials
    wrong: dict[str, int] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)

    def may_ask(self, what: str) -> bool:
        """Return whether another prompt makes sense."""
        return what not in self.declined and self.wrong.get(what, 0) < MOST_TRIES

    def was_wrong(self, what: str) -> None:
        """Record that the answer was wrong."""
        self.wrong[what] = self.wrong.get(what, 0) + 1


class Question(Exception):  # noqa: N818 - no error: what is missing for the next try
    """Input that is required from the user."""

    def put(self, asked: Asked) -> None:
        """Prompt, and store the answer for the next try."""
        raise NotImplementedError


class PasswordQuestion(Question):
    """Prompt for the password of a target."""

    def __init__(self, target: SshTarget) -> None:
        super().__init__(target.login)
        self.target = target

    def put(self, asked: Asked) -> None:
        """Prompt, unless another connection has got the answer meanwhile."""
        with asked.credentials.asking:
            if asked.credentials.password(self.target) is not None:
                return
            what = self.target.login
            password = asked.asker.password(self.target, again=asked.wrong.get(what, 0) > 0)
            if password is None:
                asked.declined.add(what)
            else:
                asked.credentials.set_password(self.target, password)


class PassphraseQuestion(Question):
    """Passphrase of a private key, entered by the user."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path

    def put(self, asked: Asked) -> None:
        """Prompt, unless another connection has got the answer meanwhile."""
        with asked.credentials.asking:
            if asked.credentials.passphrase(self.path) is not None:
                return
            what = str(self.path)
            passphrase = asked.asker.passphrase(self.path, again=asked.wrong.get(what, 0) > 0)
            if passphrase is None:
                asked.declined.add(what)
            else:
                asked.credentials.set_passphrase(self.path, passphrase)


class TrustQuestion(Question):
    """Prompt for whether a host's key is the right one."""

    def __init__(self, target: SshTarget, key_type: str, blob: bytes) -> None:
        super().__init__(target.key_names[0])
        self.target = target
        self.key_type = key_type
        self.blob = blob

    def put(self, asked: Asked) -> None:
        """Prompt, and record the key.

        Raises:
            HostKeyUnknownError: it is not trusted.
            OSError: the key cannot be recorded.
        """
        target, shown = self.target, fingerprint(self.blob)
        with asked.credentials.asking:
            known = judge(read_known(target.known_hosts), target.key_names, self.blob)
            if known.verdict is not Verdict.UNKNOWN:
                return
            if target.trust_file is None or not asked.asker.trust(target, self.key_type, shown):
                raise HostKeyUnknownError(
                    target.name,
                    f"host key of {target.host} not verified: "
                    f"{self.key_type} {shown}. If it is, `torchdeck nodes trust {asked.node}` writes it down "
                    f"at a terminal, and where there is none with `--fingerprint {shown}`",
                    self.key_type,
                    shown,
                )
            trust(target.trust_file, target.key_names[0], self.key_type, self.blob)
