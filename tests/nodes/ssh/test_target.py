"""Where a connection goes: the book's entry laid over the SSH config, compared with what ssh says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.config_file import SshConfig
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.target import SshTarget, target_for, target_of


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "person"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def target(
    text: str, entry: NodeEntry, person: Path, node_inventory: NodeInventory | None = None
) -> SshTarget:
    file = person / ".ssh" / "config"
    file.write_text(text)
    return target_for("n", entry, node_inventory or NodeInventory(), person / "td", SshConfig((file,)))


def test_without_a_config_it_is_what_ssh_does_by_itself(person: Path) -> None:
    found = target("", NodeEntry(address="h"), person)
    assert (found.host, found.port, found.jumps, found.proxy_command) == ("h", 22, (), None)
    assert found.identity_files[0] == person / ".ssh" / "id_rsa"
    assert person / ".ssh" / "known_hosts" in found.known_hosts
    assert found.known_hosts[-1] == found.trust_file == person / "td" / "known_hosts"


def test_the_config_is_honoured_and_the_book_comes_first(person: Path) -> None:
    text = (
        "Host box\n  HostName 10.0.0.9\n  Port 2222\n  User them\n"
        "  IdentityFile ~/.ssh/one\n  IdentityFile %d/two\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        "  HostKeyAlias The-Box\n  UserKnownHostsFile ~/mine /other\n"
        "Host *\n  User anybody\n  Port 1\n"
    )
    found = target(text, NodeEntry(address="box"), person)
    assert (found.host, found.port, found.user) == ("10.0.0.9", 2222, "them")
    assert found.identity_files == (person / ".ssh" / "one", person / "two")
    assert found.key_names == ("the-box",)
    assert (found.identities_only, found.agent_socket) == (True, "")
    assert found.known_hosts[:2] == (person / "mine", Path("/other"))
    own = target(text, NodeEntry(address="box", port=3, user="me", key="~/k"), person)
    assert (own.port, own.user, own.identity_files[0]) == (3, "me", person / "k")


def test_a_key_of_the_book_replaces_the_usual_names(person: Path) -> None:
    assert target("", NodeEntry(address="h", key="/k"), person).identity_files == (Path("/k"),)


def test_a_proxy_command_knows_the_port_of_the_book(person: Path) -> None:
    found = target(
        "Host h\n  ProxyCommand nc %h %p as %r\n", NodeEntry(address="h", port=5, user="u"), person
    )
    assert found.proxy_command == "nc h 5 as u"
    assert target("Host h\n  ProxyCommand none\n", NodeEntry(address="h"), person).proxy_command is None


@pytest.mark.parametrize(
    ("text", "jumps", "command"),
    [
        ("ProxyJump a\nProxyCommand nc x y\n", ["a"], None),
        ("ProxyCommand nc x y\nProxyJump a\n", [], "nc x y"),
        ("ProxyJump none\n", [], None),
    ],
)
def test_of_jump_and_command_the_first_said_counts(
    text: str, jumps: list[str], command: str | None, person: Path
) -> None:
    found = target(f"Host h\n{text}", NodeEntry(address="h"), person)
    assert [hop.host for hop in found.jumps] == jumps
    assert found.proxy_command == command


def test_hops_come_in_order_with_those_that_the_first_one_needs(person: Path) -> None:
    text = (
        "Host inner\n  ProxyJump me@middle:7,last\n"
        "Host middle\n  ProxyJump outer\n  User them\n  Port 1\n"
        "Host outer\n  HostName out.example\n  ProxyCommand nc %h %p\n"
        "Host last\n  ProxyJump ignored\n  ProxyCommand ignored\n"
    )
    found = target(text, NodeEntry(address="inner"), person)
    assert [(hop.host, hop.port) for hop in found.jumps] == [("out.example", 22), ("middle", 7), ("last", 22)]
    assert found.jumps[1].user == "me"
    assert [hop.proxy_command for hop in found.jumps] == ["nc out.example 22", None, None]
    assert found.jumps[0].name == "jump host outer"


def test_jumps_of_the_book_are_nodes_or_hosts(person: Path) -> None:
    node_inventory = NodeInventory(
        nodes={"gate": NodeEntry(address="10.0.0.1", user="g", port=2), "n": NodeEntry(address="x")}
    )
    entry = NodeEntry(address="h", jump=["gate", "u@[fe80::1]:9", "ssh://v@w:8"])
    found = target("Host h\n  ProxyCommand nc\n", entry, person, node_inventory)
    assert [(hop.name, hop.user, hop.host, hop.port) for hop in found.jumps] == [
        ("gate", "g", "10.0.0.1", 2),
        ("jump host fe80::1", "u", "fe80::1", 9),
        ("jump host w", "v", "w", 8),
    ]
    assert found.proxy_command is None


@pytest.mark.parametrize(
    ("text", "jump"),
    [
        ("", ["n"]),
        ("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n", ["a"]),
        ("Host *\n  ProxyJump gw\n", []),
    ],
)
def test_jumps_in_a_circle_are_said_to_be(text: str, jump: list[str], person: Path) -> None:
    node_inventory = NodeInventory(nodes={"n": NodeEntry(address="h", jump=jump)})
    file = person / ".ssh" / "config"
    file.write_text(text)
    with pytest.raises(TargetError, match="node n: its jump hosts lead in a circle"):
        target_of("n", node_inventory, person, SshConfig((file,)))


@pytest.mark.parametrize(
    ("text", "entry", "said"),
    [
        ("Host h\n  Port many\n", NodeEntry(address="h"), "many is not a port"),
        (
            "",
            NodeEntry(address="h", jump=["a b"]),
            r"node a b: a jump host is written as \[USER@\]HOST\[:PORT\]",
        ),
        ("Match nonsense\n", NodeEntry(address="h"), "node n: .*SSH config cannot be understood"),
    ],
)
def test_what_leads_nowhere_is_said_with_the_reason(
    text: str, entry: NodeEntry, said: str, person: Path
) -> None:
    with pytest.raises(TargetError, match=said):
        target(text, entry, person)


def test_a_node_that_is_not_in_the_book_is_said_not_to_be(person: Path) -> None:
    with pytest.raises(TargetError, match="node x: it is not in the node inventory"):
        target_of("x", NodeInventory(), person)


def test_includes_count_where_they_stand(person: Path) -> None:
    folder = person / ".ssh"
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "1.conf").write_text("Host b\n  Port 1\n")
    (folder / "conf.d" / "2.conf").write_text("Port 2\n")
    text = "Host a\n  Include conf.d/*.conf\n  User u\nHost *\n  Port 3\n"
    assert target(text, NodeEntry(address="a"), person).port == 2
    assert target(text, NodeEntry(address="a"), person).user == "u"
    assert target(text, NodeEntry(address="b"), person).port == 3
    (folder / "loop").write_text("Include loop\n")
    with pytest.raises(TargetError, match="16 deep"):
        target("Include loop\n", NodeEntry(address="a"), person)


def test_comments_quotes_and_variables_are_read_as_ssh_reads_them(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/opt/keys")
    monkeypatch.setenv("SOCKET", "/run/agent")
    text = (
        "Host a # the lab's\n  Port 2200 # not 22\n  User me#2\n"
        '  HostKeyAlias "a #1" # odd\n  IdentityFile "${KEYS}/my key" # of the lab\n  IdentityAgent $SOCKET\n'
        '  UserKnownHostsFile "/x/my hosts" ~/hosts\n'
        "Host c\n  ProxyCommand nc %h %p # all of it\n  IdentityAgent $AWAY\n"
    )
    found = target(text, NodeEntry(address="a"), person)
    assert (found.port, found.user, found.host_key_alias) == (2200, "me#2", "a #1")
    assert found.identity_files == (Path("/opt/keys/my key"),)
    assert found.agent_socket == "/run/agent"
    assert found.known_hosts[:2] == (Path("/x/my hosts"), person / "hosts")
    other = target(text, NodeEntry(address="c"), person)
    assert other.proxy_command == "nc c 22 # all of it"
    assert other.agent_socket == ""


def test_names_of_hosts_are_listed_without_patterns(person: Path) -> None:
    file = person / ".ssh" / "config"
    (person / ".ssh" / "more").write_text("Host inner\n")
    file.write_text('Host a "b" *.lab !c d?\n  User x\nMatch host e\nInclude more\nhost=f\nHost a\n')
    assert SshConfig((file,)).host_names() == ["a", "b", "inner", "f"]


hosts = st.sampled_from(["alpha", "beta", "gamma.lab"])
patterns = st.lists(
    st.sampled_from(["alpha", "beta", "*", "*.lab", "!alpha", "al?ha", "gamma*"]), min_size=1, max_size=3
)
options = st.sampled_from(
    ["Port 7", "Port 8", "User one", "User two", "HostName real", "HostKeyAlias al", "User=three"]
)
blocks = st.lists(st.tuples(patterns, st.lists(options, max_size=3)), max_size=4)


@pytest.mark.processes
@settings(max_examples=40, deadline=None)
@given(text=blocks, host=hosts)
def test_it_says_what_ssh_itself_says(
    text: list[tuple[list[str], list[str]]], host: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`ssh -G` is asked."""
    lines = [
        f"Host {' '.join(names)}\n" + "".join(f"  {line}\n" for line in inside) for names, inside in text
    ]
    file = tmp_path_factory.mktemp("config") / "config"
    file.write_text("".join(lines))
    asked = subprocess.run(
        ["ssh", "-G", "-F", file, host], capture_output=True, text=True, check=True, timeout=20
    )
    said = dict(line.split(" ", 1) for line in asked.stdout.splitlines() if " " in line)
    found = target_for("n", NodeEntry(address=host), NodeInventory(), Path("/td"), SshConfig((file,)))
    assert (found.host, str(found.port), found.user) == (said["hostname"], said["port"], said["user"])
    assert (found.host_key_alias or "none") == said.get("hostkeyalias", "none")
