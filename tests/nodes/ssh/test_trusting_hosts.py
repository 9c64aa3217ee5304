"""Host keys of real sshd: unknown ones are asked about, changed and revoked ones refused."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.cli.asking import Person
from support.hosts.hosts import TestHosts
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import connect
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.errors import HostKeyChangedError, HostKeyRevokedError, HostKeyUnknownError
from torchdeck.nodes.ssh.host_keys import fingerprint, read_known
from torchdeck.nodes.ssh.target import SshTarget, target_for

Hosts = Callable[..., TestHosts]


def target(hosts: TestHosts, home: Path) -> SshTarget:
    return target_for("node1", NodeEntry(**hosts.entry(1)), NodeInventory(), home)


def visit(where: SshTarget, asker: Asker) -> None:
    connect(where, Credentials(), asker, 20).close()


def test_an_unknown_key_is_asked_about_once_and_then_known(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    known = torchdeck_home / "known_hosts"
    shown = fingerprint(read_known([known])[0].blob)
    known.unlink()
    person = Person(trusts=True)
    visit(target(made, torchdeck_home), person)
    assert person.asked == [("trust", made.address(1), "ssh-ed25519", shown)]
    assert known.read_text() == made.known_hosts
    assert known.stat().st_mode & 0o777 == 0o600
    visit(target(made, torchdeck_home), NoAsker())


@pytest.mark.parametrize("asker", [NoAsker(), Person(trusts=False)])
def test_an_unknown_key_that_nobody_trusts_is_refused_with_the_command_that_trusts_it(
    hosts: Hosts, torchdeck_home: Path, asker: Asker
) -> None:
    made = hosts(1)
    (torchdeck_home / "known_hosts").unlink()
    with pytest.raises(HostKeyUnknownError, match="`torchdeck nodes trust node1`") as caught:
        visit(target(made, torchdeck_home), asker)
    assert caught.value.fingerprint.startswith("SHA256:")
    assert caught.value.fingerprint in str(caught.value)
    assert not (torchdeck_home / "known_hosts").exists()


def test_a_changed_key_is_refused_and_nobody_is_asked(hosts: Hosts, torchdeck_home: Path) -> None:
    """What it says of the way out is a command that works: the new key is then one that no one knows."""
    made = hosts(1)
    made.change_host_key(1)
    person = Person(trusts=True)
    with pytest.raises(
        HostKeyChangedError, match=r"another one than before: .*line 1 of .*known_hosts"
    ) as caught:
        visit(target(made, torchdeck_home), person)
    assert person.asked == []
    command = str(caught.value).split("`")[1]
    assert command.startswith("ssh-keygen -R ")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=20)
    visit(target(made, torchdeck_home), person)
    ((_, _, _, fingerprint),) = person.asked
    assert fingerprint in str(caught.value)


def test_a_revoked_key_is_refused(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    known = torchdeck_home / "known_hosts"
    known.write_text(f"{made.known_hosts}@revoked * {made.known_hosts.partition(' ')[2]}")
    with pytest.raises(HostKeyRevokedError, match=r"is revoked \(line 2 of"):
        visit(target(made, torchdeck_home), Person(trusts=True))


def test_the_users_own_known_hosts_count(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    folder = Path("~/.ssh").expanduser()
    folder.mkdir()
    (torchdeck_home / "known_hosts").rename(folder / "known_hosts")
    visit(target(made, torchdeck_home), NoAsker())


def test_a_host_is_known_by_its_alias(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    known = torchdeck_home / "known_hosts"
    known.write_text(f"the-cluster {made.known_hosts.partition(' ')[2]}")
    where = target(made, torchdeck_home)
    with pytest.raises(HostKeyUnknownError):
        visit(where, NoAsker())
    visit(replace(where, host_key_alias="The-Cluster"), NoAsker())


def test_a_host_with_several_keys_is_asked_for_the_one_that_is_known(
    hosts: Hosts, torchdeck_home: Path, tmp_path: Path
) -> None:
    from support.hosts.hosts import make_key

    made = hosts(1)
    rsa = make_key(tmp_path / "host_rsa", kind="rsa")
    made.configure(1, f"HostKey {rsa}")
    kind, blob = (tmp_path / "host_rsa.pub").read_text().split()[:2]
    (torchdeck_home / "known_hosts").write_text(f"{made.address(1)} {kind} {blob}\n")
    visit(target(made, torchdeck_home), NoAsker())


def test_another_port_is_another_host_and_its_plain_name_may_confirm_its_key(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(1)
    made.configure(1, "Port 2222", f"ListenAddress {made.address(1)}:2222")
    entry = NodeEntry(**made.entry(1, port=2222))
    where = target_for("node1", entry, NodeInventory(), torchdeck_home)
    visit(where, NoAsker())
    (torchdeck_home / "known_hosts").unlink()
    visit(where, Person(trusts=True))
    assert (torchdeck_home / "known_hosts").read_text().startswith(f"[{made.address(1)}]:2222 ssh-ed25519 ")
