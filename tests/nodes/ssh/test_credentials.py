"""Credentials keep what they are told, show nothing of it, and go through a pipe whole."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.nodes.ssh.credentials import Credentials
from torchdeck.nodes.ssh.target import SshTarget

TARGET = SshTarget("n", "h", 22, "root")
tables = st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4)


@settings(deadline=None)
@given(tables, tables)
def test_what_goes_into_a_pipe_comes_out(passwords: dict[str, str], passphrases: dict[str, str]) -> None:
    sent = json.loads(json.dumps(Credentials(passwords, passphrases).to_json()))
    assert Credentials.from_json(sent).to_json() == {"passwords": passwords, "passphrases": passphrases}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"passwords": {}},
        {"passwords": {"a": 1}, "passphrases": {}},
        {"passwords": "x", "passphrases": {}},
    ],
)
def test_anything_else_is_refused_without_a_word_of_its_content(value: object) -> None:
    with pytest.raises(ValueError, match="these are not credentials"):
        Credentials.from_json(value)


def test_a_wrong_password_is_forgotten_and_a_newer_one_stays() -> None:
    credentials = Credentials()
    credentials.set_password(TARGET, "old")
    credentials.forget_password(TARGET, "older")
    assert credentials.password(TARGET) == "old"
    credentials.forget_password(TARGET, "old")
    assert credentials.password(TARGET) is None
    credentials.set_passphrase(Path("/k"), "new")
    credentials.forget_passphrase(Path("/k"), "old")
    assert credentials.passphrase(Path("/k")) == "new"


def test_they_are_neither_shown_nor_pickled() -> None:
    credentials = Credentials({"root@h:22": "canary"}, {"/k": "canary"})
    assert "canary" not in f"{credentials!r}{credentials}"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(credentials)
