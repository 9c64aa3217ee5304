"""Ways to a host: through other hosts, and through a command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.asking import Person
from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.errors import HostKeyChangedError, NeedsLoginError, UnreachableError
from torchdeck.nodes.ssh.target import target_of

Hosts = Callable[..., TestHosts]


def connected(node_inventory: NodeInventory, name: str, home: Path, asker: Asker | None = None) -> Connection:
    return connect(target_of(name, node_inventory, home), Credentials(), asker or NoAsker(), 20)


def config(text: str) -> None:
    folder = Path("~/.ssh").expanduser()
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config").write_text(text)


def chain(made: TestHosts) -> None:
    """Host 3 lets only host 2 in, and host 2 only host 1."""
    for host, before in ((2, made.address(1)), (3, made.address(2))):
        made.configure(host, f"Match Address *,!{before}", "  DenyUsers *", "Match all")
        made.block_port(host, "22", sender=made.here)


def test_a_host_is_reached_through_two_others_that_are_nodes(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(3)
    chain(made)
    node_inventory = NodeInventory(
        nodes={
            "inner": NodeEntry(**made.entry(3, jump=["middle"])),
            "middle": NodeEntry(**made.entry(2, jump=["outer"])),
            "outer": NodeEntry(**made.entry(1)),
        }
    )
    with connected(node_inventory, "inner", torchdeck_home) as connection:
        assert connection.run("hostname").stdout.decode().strip() == made.name(3)
        assert connection.run("echo $SSH_CLIENT").stdout.decode().split()[0] == made.address(2)
    wait_until(lambda: len(sessions(made)) == 0, 20, "all connections to end")


def test_proxy_jump_of_the_ssh_config_is_honoured(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(3)
    chain(made)
    key = f"  IdentityFile {made.key}\n  User root\n"
    config(
        f"Host inner\n  HostName {made.address(3)}\n  ProxyJump outer,root@{made.address(2)}:22\n{key}"
        f"Host outer\n  HostName {made.address(1)}\n{key}"
        f"Host 10.77.*\n{key}"
    )
    node_inventory = NodeInventory(nodes={"n": NodeEntry(address="inner")})
    with connected(node_inventory, "n", torchdeck_home) as connection:
        assert connection.run("hostname").stdout.decode().strip() == made.name(3)


def test_a_proxy_command_is_honoured_and_ended(hosts: Hosts, torchdeck_home: Path, tmp_path: Path) -> None:
    made = hosts(2)
    made.block_port(2, "22", sender=made.here)
    known = tmp_path / "known for ssh"
    known.write_text(made.known_hosts)
    through = f"ssh -F none -i {made.key} -o 'UserKnownHostsFile=\"{known}\"' -W %h:%p root@{made.address(1)}"
    config(f"Host n2\n  HostName {made.address(2)}\n  ProxyCommand {through}\n")
    node_inventory = NodeInventory(nodes={"n": NodeEntry(**made.entry(2, address="n2"))})
    with connected(node_inventory, "n", torchdeck_home) as connection:
        assert connection.run("hostname").stdout.decode().strip() == made.name(2)
        assert len(sessions(made)) > 0
    wait_until(lambda: len(sessions(made)) == 0, 20, "the proxy command's connection to end")


def test_a_proxy_command_that_fails_is_quoted(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    config("Host n1\n  ProxyCommand echo no way out >&2\n")
    node_inventory = NodeInventory(nodes={"n": NodeEntry(**made.entry(1, address="n1"))})
    with pytest.raises(UnreachableError, match=r"node n: .*no way out"):
        connected(node_inventory, "n", torchdeck_home)


def test_each_host_on_the_way_must_be_logged_in_to_and_its_key_be_right(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(2)
    password = made.allow_passwords(1)
    gateway = NodeEntry(**made.entry(1, key="~/no-such-key"))
    node_inventory = NodeInventory(
        nodes={"gateway": gateway, "n": NodeEntry(**made.entry(2, jump=["gateway"]))}
    )
    with pytest.raises(NeedsLoginError, match="node gateway: "):
        connected(node_inventory, "n", torchdeck_home)
    person = Person(passwords=[password])
    connected(node_inventory, "n", torchdeck_home, person).close()
    assert person.asked == [("password", f"root@{made.address(1)}:22")]
    made.change_host_key(1)
    with pytest.raises(HostKeyChangedError, match="node gateway: "):
        connected(node_inventory, "n", torchdeck_home, Person(trusts=True))


def test_what_a_jump_host_cannot_reach_is_said_with_its_reason(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(2)
    node_inventory = NodeInventory(
        nodes={
            "gateway": NodeEntry(**made.entry(1)),
            "n": NodeEntry(**made.entry(2, port=23, jump=["gateway"])),
        }
    )
    with pytest.raises(
        UnreachableError, match=r"node n: .*port 23, cannot be reached: the host before it says"
    ):
        connected(node_inventory, "n", torchdeck_home)
    made.configure(1, "AllowTcpForwarding no")
    with pytest.raises(UnreachableError, match="the host before it says"):
        connected(node_inventory, "n", torchdeck_home)


def sessions(made: TestHosts) -> list[str]:
    """Open SSH connections between this machine and the hosts."""
    lines = made.enter(1, ["ss", "-Htn", "state", "established"]).stdout.splitlines()
    return [line for line in lines if ":22 " in line]
