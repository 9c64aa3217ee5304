"""Secrets are kept in the keyring when that was asked for, found there, and taken out again."""

import dataclasses
from pathlib import Path

import keyring
import pytest

from support.agents.agent_run import make_plan
from support.cli.asking import Person
from support.cli.command_here import CommandHere
from support.hosts.file_keyring import FILE_VARIABLE, FileKeyring
from torchdeck.launching.control.run_secrets import plan_secrets
from torchdeck.nodes.ssh.credentials import Credentials
from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker, KeyringError, names_of
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck.use_cases.start import keep_secrets, missing_secrets

pytestmark = pytest.mark.processes

GATE = SshTarget("gate", "g", 22, "me")
TARGET = SshTarget("n", "h", 2222, "root", identity_files=(Path("/k"),), jumps=(GATE,))


@pytest.fixture(autouse=True)
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    secrets = tmp_path / "secrets"
    monkeypatch.setenv(FILE_VARIABLE, str(secrets))
    before = keyring.get_keyring()
    monkeypatch.setattr("keyring.core._keyring_backend", before)  # put back at the end
    keyring.set_keyring(FileKeyring())
    return secrets


def known() -> Credentials:
    credentials = Credentials()
    credentials.set_password(TARGET, "pass-canary")
    credentials.set_passphrase(Path("/k"), "phrase-canary")
    return credentials


def test_what_is_kept_is_found_and_only_its_name_is_in_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    store = Keyring(home)
    assert store.keep(known()) == ["password of root@h:2222", "passphrase of /k"]
    assert store.keep(known()) == []
    person = Person(passwords=["typed"])
    asker = KeyringAsker(Keyring(home), person)
    assert asker.password(TARGET, again=False) == "pass-canary"
    assert asker.passphrase(Path("/k"), again=False) == "phrase-canary"
    assert person.asked == []
    assert asker.password(TARGET, again=True) == "typed"
    assert asker.passphrase(Path("/other"), again=False) is None
    assert not [path for path in home.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]


def test_secrets_of_runs_are_kept_and_found_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any front end; a variable that is set wins, and what no one has is missing."""
    monkeypatch.setenv("SET_HERE", "x")
    names = ("SET_HERE", "THE_KEY", "OTHER")
    assert missing_secrets(names, tmp_path).names == ("THE_KEY", "OTHER")
    assert missing_secrets(names, tmp_path).can_keep
    keep_secrets({"THE_KEY": "canary"}, tmp_path)
    assert missing_secrets(names, tmp_path).names == ("OTHER",)
    plan = make_plan(["true"], tmp_path)
    nodes = tuple(dataclasses.replace(node, secrets=("SET_HERE", "THE_KEY")) for node in plan.nodes)
    plan = dataclasses.replace(plan, nodes=nodes)
    assert plan_secrets(plan, {"SET_HERE": "x"}, tmp_path, required=True).values == {
        "SET_HERE": "x",
        "THE_KEY": "canary",
    }
    assert plan_secrets(plan, {"THE_KEY": "mine"}, tmp_path, required=False).values == {"THE_KEY": "mine"}


def test_what_is_forgotten_is_gone(tmp_path: Path, backend: Path) -> None:
    store = Keyring(tmp_path)
    store.keep(known())
    assert store.forget(names_of(TARGET)) == ["password of root@h:2222", "passphrase of /k"]
    assert store.names == []
    assert backend.read_text() == "{}"
    assert store.forget(names_of(TARGET)) == []


def test_a_secret_of_runs_is_forgotten_by_command(tmp_path: Path, backend: Path) -> None:
    """By its name, without a node; the passwords stay."""
    store = Keyring(tmp_path)
    store.keep(known())
    keep_secrets({"THE_KEY": "canary"}, tmp_path)
    command = CommandHere(tmp_path)
    forget = ("nodes", "trust", "--keyring", "forget", "--secret", "THE_KEY")
    assert command.run(*forget).stdout == "forgot secret THE_KEY\n"
    assert command.run(*forget).stdout == "forgot nothing\n"
    assert store.names == ["passphrase of /k", "password of root@h:2222"]
    assert missing_secrets(("THE_KEY",), tmp_path).names == ("THE_KEY",)
    assert "name a node" in command.run("nodes", "trust", "--keyring", "forget").stderr
    assert "needs --keyring forget" in command.run("nodes", "trust", "n", "--secret", "THE_KEY").stderr


def test_the_keyring_is_never_opened_for_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FILE_VARIABLE)  # opening it would be a KeyError
    assert (
        KeyringAsker(Keyring(tmp_path), Person(passwords=["typed"])).password(TARGET, again=False) == "typed"
    )


def test_a_keyring_that_refuses_is_said_to_and_a_person_is_asked_instead(tmp_path: Path) -> None:
    from keyring.backends.fail import Keyring as NoKeyring

    store = Keyring(tmp_path)
    store.keep(known())
    keyring.set_keyring(NoKeyring())
    with pytest.raises(KeyringError, match="the keyring cannot be used: "):
        store.keep(known())
    assert KeyringAsker(store, Person(passwords=["typed"])).password(TARGET, again=False) == "typed"
