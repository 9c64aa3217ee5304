"""Logging in to real sshd: keys, agents, passphrases, passwords, and what is asked for when."""

import logging
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from support.cli.asking import Person
from support.hosts.hosts import TestHosts, make_key
from support.hosts.ssh_agent import ssh_agent
from support.waiting import wait_until
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.errors import NeedsLoginError
from torchdeck.nodes.ssh.target import SshTarget, target_for

Hosts = Callable[..., TestHosts]
LIMIT = 20.0


def target(hosts: TestHosts, home: Path, key: Path | None, host: int = 1) -> SshTarget:
    entry = NodeEntry(**hosts.entry(host, key=None if key is None else str(key)))
    return target_for(f"node{host}", entry, NodeInventory(), home)


def works(where: SshTarget, asker: Asker, credentials: Credentials | None = None) -> bool:
    with connect(where, credentials or Credentials(), asker, LIMIT) as connection:
        return _greets(connection)


def _greets(connection: Connection) -> bool:
    return connection.run("echo hello", limit=LIMIT).stdout == b"hello\n"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_keys_of_every_kind_log_in(hosts: Hosts, torchdeck_home: Path, tmp_path: Path, kind: str) -> None:
    made = hosts(1)
    key = make_key(tmp_path / "key", kind=kind)
    made.authorize(1, key)
    assert works(target(made, torchdeck_home, key), NoAsker())


def test_without_a_key_the_usual_names_in_the_ssh_folder_are_tried(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(1)
    folder = Path("~/.ssh").expanduser()
    folder.mkdir(mode=0o700)
    make_key(folder / "id_rsa", kind="rsa")  # not the right one, and tried first
    made.authorize(1, make_key(folder / "id_ed25519"))
    assert works(target(made, torchdeck_home, None), NoAsker())


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_passphrase_is_asked_for_until_it_is_right_and_then_known(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path, kind: str
) -> None:
    made = hosts(1)
    key = make_key(tmp_path / "key", "right one", kind)
    made.authorize(1, key)
    where, credentials = target(made, torchdeck_home, key), Credentials()
    person = Person(passphrases={key: ["wrong", "right one"]})
    assert works(where, person, credentials)
    assert person.asked == [("passphrase", str(key)), ("passphrase", str(key), "again")]
    assert works(where, Person(), Credentials.from_json(credentials.to_json()))


def test_an_old_format_of_locked_keys_is_read_too(hosts: Hosts, torchdeck_home: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        PublicFormat,
    )

    made = hosts(1)
    private = generate_private_key(65537, 2048)
    path = tmp_path / "old.pem"
    path.write_bytes(
        private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"old"))
    )
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (tmp_path / "old.pem.pub").write_bytes(public + b"\n")
    made.authorize(1, path)
    person = Person(passphrases={path: ["old"]})
    assert works(target(made, torchdeck_home, path), person)


def test_a_key_that_opens_without_a_passphrase_is_tried_before_anybody_is_asked(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(1)
    locked, _ = made.key_with_passphrase()
    where = replace(target(made, torchdeck_home, locked), identity_files=(locked, made.key))
    person = Person()
    assert works(where, person)
    assert person.asked == []


def test_who_declines_a_passphrase_is_asked_for_the_password(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    locked, _ = made.key_with_passphrase()
    password = made.allow_passwords(1)
    where = target(made, torchdeck_home, locked)
    person = Person(passwords=["not this", password])
    assert works(where, person)
    assert person.asked == [
        ("passphrase", str(locked)),
        ("password", where.login),
        ("password", where.login, "again"),
    ]


def test_a_password_that_was_known_and_changed_is_asked_for_again(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    where, credentials = replace(target(made, torchdeck_home, None), identity_files=()), Credentials()
    credentials.set_password(where, "the old one")
    person = Person(passwords=[password])
    assert works(where, person, credentials)
    assert person.asked == [("password", where.login, "again")]
    assert credentials.password(where) == password


def test_three_wrong_passwords_are_enough(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    made.allow_passwords(1)
    where = replace(target(made, torchdeck_home, None), identity_files=())
    person = Person(passwords=["a", "b", "c", "d"])
    with pytest.raises(NeedsLoginError, match="the password was wrong"):
        works(where, person)
    assert len(person.asked) == 3


def test_where_nobody_can_be_asked_it_is_said_what_is_missing_and_what_would_help(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path
) -> None:
    made = hosts(1)
    made.allow_passwords(1)
    locked, _ = made.key_with_passphrase()
    other = make_key(tmp_path / "other")
    broken = tmp_path / "broken"
    broken.write_text("no key at all\n")
    missing = tmp_path / "no key here"
    where = replace(target(made, torchdeck_home, locked), identity_files=(other, locked, broken, missing))
    with pytest.raises(NeedsLoginError) as caught:
        works(where, NoAsker())
    said = str(caught.value)
    assert caught.value.asking_helps
    assert caught.value.node == "node1"
    for words in (
        f"node node1: root@{made.address(1)}:22",
        "1 key was rejected",
        f"{locked} needs a passphrase",
        "the password was not given",
        f"{broken} is not a usable private key",
        f"{missing} does not exist",
        "ssh-add",
    ):
        assert words in said


def test_a_host_that_takes_no_passwords_asks_for_none(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path
) -> None:
    person = Person(passwords=["x"])
    with pytest.raises(NeedsLoginError, match="It accepts: publickey") as caught:
        works(target(hosts(1), torchdeck_home, make_key(tmp_path / "other")), person)
    assert person.asked == []
    assert not caught.value.asking_helps
    assert str(caught.value).endswith("in the node inventory or load one into an agent (ssh-add)")


def test_keys_of_an_agent_are_tried_before_files_the_named_one_first(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hosts(1)
    keys = [make_key(tmp_path / f"key{number}") for number in range(4)]
    made.authorize(1, keys[3])
    with ssh_agent(tmp_path, keys[:3]) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        where = replace(target(made, torchdeck_home, None), identity_files=(keys[3], keys[1]))
        assert works(where, NoAsker())
    assert tried(made) == [print_of(keys[number]) for number in (1, 0, 2, 3)]


def test_an_agent_that_alone_knows_the_key_is_enough(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hosts(1)
    key = make_key(tmp_path / "key", kind="rsa")
    made.authorize(1, key)
    with ssh_agent(tmp_path, [key]) as socket:
        key.unlink()
        where = replace(target(made, torchdeck_home, None), agent_socket=str(socket))
        assert works(where, NoAsker())
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        with pytest.raises(NeedsLoginError):
            works(replace(where, agent_socket=""), NoAsker())
        with pytest.raises(NeedsLoginError):
            works(replace(where, agent_socket=None, identities_only=True), NoAsker())
        assert works(
            replace(where, agent_socket=None, identity_files=(key,), identities_only=True), NoAsker()
        )


def test_an_agent_that_is_gone_is_said_to_be(hosts: Hosts, torchdeck_home: Path, tmp_path: Path) -> None:
    made = hosts(1)
    where = replace(
        target(made, torchdeck_home, None), agent_socket=str(tmp_path / "none"), identity_files=()
    )
    with pytest.raises(NeedsLoginError, match=r"the agent at .* does not answer"):
        works(where, NoAsker())


def test_more_keys_than_the_server_has_patience_for_are_said_to_be_too_many(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path
) -> None:
    made = hosts(1)
    keys = tuple(make_key(tmp_path / f"key{number}") for number in range(7))
    where = replace(target(made, torchdeck_home, None), identity_files=keys)
    with pytest.raises(NeedsLoginError, match=r"closed the connection after 6 keys.*IdentitiesOnly"):
        works(where, NoAsker())


def test_a_second_factor_is_given_after_the_first(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    made.configure(1, "AuthenticationMethods publickey,password")
    person = Person(passwords=[password])
    assert works(target(made, torchdeck_home, made.key), person)
    with pytest.raises(NeedsLoginError):
        works(target(made, torchdeck_home, made.key), NoAsker())


def test_what_one_connection_is_told_serves_those_that_wait(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(4)
    locked, passphrase = made.key_with_passphrase()
    person, credentials = Person(passphrases={locked: [passphrase]}), Credentials()
    with ThreadPoolExecutor(4) as pool:
        tries = [
            pool.submit(works, target(made, torchdeck_home, locked, host), person, credentials)
            for host in range(1, 5)
        ]
        assert all(one.result(60) for one in tries)
    assert person.asked == [("passphrase", str(locked))]


def test_no_secret_is_in_any_file_command_line_environment_or_log(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    password, passphrase = "canary-Password-7351", "canary-Passphrase-9482"
    made = hosts(1)
    made.allow_passwords(1, password)
    locked, _ = made.key_with_passphrase(passphrase)
    made.configure(1, "AuthenticationMethods publickey,password", "LogLevel DEBUG3")
    person = Person(passwords=["wrong canary", password], passphrases={locked: ["bad canary", passphrase]})
    credentials = Credentials()
    caplog.set_level(logging.DEBUG)
    with connect(target(made, torchdeck_home, locked), credentials, person, LIMIT) as connection:
        assert _greets(connection)
        process = connection.start("exec sleep 30")
        # sshd says yes before the command is there
        seen = wait_until(lambda: with_sleep(processes(made)), 20, "the command to run")
        process.close()
    with pytest.raises(NeedsLoginError) as caught:
        works(target(made, torchdeck_home, locked), Person(passwords=["wrong canary"]))
    texts = [str(caught.value), repr(caught.value), repr(credentials), caplog.text, made.sshd_log(1)]
    contents = [*(text.encode() for text in texts), *seen]
    for folder in (torchdeck_home, tmp_path):
        contents += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not [content for content in contents if b"canary" in content]
    with pytest.raises(TypeError, match="cannot be pickled"):
        credentials.__reduce__()


def with_sleep(seen: list[bytes]) -> list[bytes]:
    """Where the command is among them."""
    return seen if any(b"sleep" in text for text in seen) else []


def processes(made: TestHosts) -> list[bytes]:
    """Command lines and environments of this process, its children, and all processes of the host."""
    mine = [os.getpid(), *made.pids(1)]
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if children.exists():
        mine += [int(pid) for pid in children.read_text().split()]
    found = []
    for pid in mine:
        for name in ("cmdline", "environ"):
            try:
                found.append(Path(f"/proc/{pid}/{name}").read_bytes())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def tried(made: TestHosts) -> list[str]:
    """Fingerprints of the keys that were tried, in order, as sshd noted them."""
    return re.findall(r"(?:Failed|Accepted) publickey for root .* (SHA256:\S+)", made.sshd_log(1))


def print_of(key: Path) -> str:
    from torchdeck.nodes.ssh.host_keys import fingerprint
    from torchdeck.nodes.ssh.login import public_blob

    blob = public_blob(key)
    assert blob is not None
    return fingerprint(blob)


@pytest.mark.skipif(not Path("/etc/pam.d/sshd").exists(), reason="there is no PAM service for sshd")
def test_a_host_that_asks_by_keyboard_interactive_is_given_the_password(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    made.configure(1, "UsePAM yes", "KbdInteractiveAuthentication yes", "PasswordAuthentication no")
    where = replace(target(made, torchdeck_home, None), identity_files=())
    person = Person(passwords=["wrong", password])
    assert works(where, person)
    assert [words[0] for words in person.asked] == ["password", "password"]
    assert "Accepted keyboard-interactive" in made.sshd_log(1)
