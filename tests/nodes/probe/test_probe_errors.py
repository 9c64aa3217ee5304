"""Errors of a probe are part of its result, of whatever kind they are."""

from __future__ import annotations

import pytest

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.probe.probing import Question, probe_node
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.errors import (
    HostKeyChangedError,
    HostKeyRevokedError,
    HostKeyUnknownError,
    NeedsLoginError,
    SshError,
    TargetError,
    UnansweredError,
    UnreachableError,
)
from torchdeck.nodes.ssh.login_shell import LoginShellError

ERRORS: tuple[Refusal, ...] = (
    UnreachableError("n1", "it does not answer"),
    ProbeError("node n1 sent an invalid answer"),
    ConfigError([Problem("nodes.n1", "nodes.toml", 3, "it is not a table", "a table")]),  # damaged meanwhile
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_refusal_is_the_result_of_the_probe(error: Refusal) -> None:
    def connect(_name: str, _limit: float) -> Connection:
        raise error

    assert probe_node("n1", NodeEntry(address="10.0.0.1"), connect, Question()).error == str(error)


@pytest.mark.parametrize(
    ("error", "lasts", "asking_helps"),
    [
        (UnreachableError("n1", ""), False, False),
        (UnansweredError("n1", ""), False, False),
        (NeedsLoginError("n1", ""), True, True),
        (NeedsLoginError("n1", "", asking_helps=False), True, False),
        (HostKeyUnknownError("n1", "", "ed25519", "SHA256:x"), True, True),
        (HostKeyChangedError("n1", ""), True, False),
        (HostKeyRevokedError("n1", ""), True, False),
        (TargetError("n1", ""), True, False),
        (LoginShellError("n1", ""), True, False),
    ],
)
def test_an_error_of_ssh_says_whether_trying_again_or_asking_helps(
    error: SshError, lasts: bool, asking_helps: bool
) -> None:
    assert (error.lasts, error.asking_helps) == (lasts, asking_helps)
