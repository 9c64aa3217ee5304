"""`torchdeck nodes`: the node inventory from the command line, the SSH config, and host keys at a
terminal.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.command import Command
from support.cli.command_here import CommandHere
from support.cli.typed_command import typed
from support.hosts.hosts import TestHosts
from torchdeck.nodes.inventory.file import inventory_path, read_inventory
from torchdeck.nodes.inventory.problems import RIGHT_NAME
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup
from torchdeck.nodes.ssh.config_file import SshConfig
from torchdeck.nodes.ssh.host_keys import fingerprint
from torchdeck.nodes.ssh.target import SshTarget, target_of

Hosts = Callable[..., TestHosts]


@pytest.fixture
def command(
    torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Command:
    """In this process, but for what reaches hosts: that is a process, as a person starts it."""
    person = tmp_path / "person"
    person.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return Command(torchdeck_home) if "hosts" in request.fixturenames else CommandHere(torchdeck_home)


def inventory_of(command: Command) -> dict[str, NodeEntry]:
    return read_inventory(inventory_path(command.home)).nodes


def test_a_node_is_added_changed_listed_and_removed(command: Command) -> None:
    added = command.run(
        "nodes", "add", "a", "10.0.0.1", "--port", "2222", "--devices", "0", "1", "--tags", "fast"
    )
    assert (added.returncode, added.stderr) == (0, "")
    assert "torchdeck nodes trust a" in added.stdout
    assert inventory_of(command) == {
        "a": NodeEntry(address="10.0.0.1", port=2222, devices=[0, 1], tags=["fast"])
    }
    edited = command.json(
        "nodes", "edit", "a", "--address", "b", "--max-ranks", "2", "--unset", "port", "tags"
    )
    wanted = NodeEntry(address="b", devices=[0, 1], max_ranks=2)
    assert edited == {"node": "a", **wanted.model_dump()}
    assert inventory_of(command) == {"a": wanted}
    assert command.json("nodes", "list")["nodes"] == [{"name": "a", **wanted.model_dump()}]
    listed = command.run("nodes", "list").stdout.splitlines()
    assert listed[0].split()[:2] == ["NAME", "ADDRESS"]
    assert listed[1].split() == ["a", "b", "-", "python3", "0,", "1", "-", "-"]
    assert command.run("nodes", "edit", "a", "--tags", "slow").stdout == "changed a\n"
    assert command.run("nodes", "edit", "a", "--tags", "slow").stdout == "a is unchanged\n"
    assert "nodes trust a" in command.run("nodes", "edit", "a", "--address", "me@10.0.0.2:7").stdout
    assert (inventory_of(command)["a"].address, inventory_of(command)["a"].user) == ("10.0.0.2", "me")
    assert inventory_of(command)["a"].port == 7
    assert command.run("nodes", "remove", "a").stdout == "removed a\n"
    assert inventory_of(command) == {}
    assert "there are no nodes yet" in command.run("nodes", "list").stdout


def test_a_range_of_nodes_is_edited_at_once_or_not_at_all(command: Command) -> None:
    for number in range(1, 5):
        command.run("nodes", "add", f"gpu{number}", f"10.0.0.{number}")
    edited = command.json("nodes", "edit", "gpu[1-3]", "--venv", "~/torch", "--tags", "fast")
    assert [node["node"] for node in edited["nodes"]] == ["gpu1", "gpu2", "gpu3"]
    assert [entry.venv for entry in inventory_of(command).values()] == ["~/torch"] * 3 + [None]
    assert command.run("nodes", "edit", "tag:fast", "--max-ranks", "2").stdout.count("changed") == 3
    before = inventory_of(command)
    refused = command.run("nodes", "edit", "gpu[3-5]", "--port", "7")
    assert (refused.returncode, "there is no node or group gpu5" in refused.stderr) == (2, True)
    shared = command.run("nodes", "edit", "gpu[1-2]", "--address", "10.0.0.9")
    assert (shared.returncode, "change the addresses one by one" in shared.stderr) == (2, True)
    assert inventory_of(command) == before


def test_every_key_of_the_schema_is_an_option(command: Command) -> None:
    values = {
        "port": 22,
        "user": "me",
        "key": "/k",
        "jump": ["x", "y@z:1"],
        "python": "py thon",
        "activate": "/s h",
        "trusted_owners": ["easybuild"],
        "home": "~/h",
        "working_dir": "/w",
        "devices": [3],
        "interface": "eth0",
        "training_address": "1.2.3.4",
        "max_ranks": 1,
        "tags": ["t"],
    }
    words: list[str] = []
    for key, value in values.items():
        each = value if isinstance(value, list) else [value]
        words += [f"--{key.replace('_', '-')}", *map(str, each)]
    assert command.run("nodes", "add", "a", "x", *words).returncode == 0
    assert inventory_of(command)["a"].model_dump(exclude_none=True) == {"address": "x", **values}
    for key in ("venv", "conda"):
        assert command.run("nodes", "add", key, "x", f"--{key}", "/env").returncode == 0
        assert getattr(inventory_of(command)[key], key) == "/env"
    assert {*values, "venv", "conda", "address"} == set(NodeEntry.model_fields)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "a", "x"], "node a already exists: `torchdeck nodes edit a` changes it"),
        (["add", "b c", "x"], 'nodes."b c": it is not a valid name'),
        (
            ["add", "b", "x", "--port", "70000"],
            "nodes.b.port: 70000 is not valid\n    expected: a whole number from 1",
        ),
        (
            ["add", "b", "x", "--venv", "/v", "--conda", "c"],
            "nodes.b.conda: venv and conda each select a Python",
        ),
        (["edit", "aa", "--port", "1"], "there is no node or group aa; did you mean a?"),
        (["edit", "a", "--unset", "prot"], "there is no key prot"),
        (["edit", "a", "--unset", "address"], "nodes.a: there is no address in it"),
        (["edit", "a"], "no change to a is given:"),
        (
            ["edit", "zzz", "--port", "1"],
            "there is no node or group zzz: `torchdeck nodes list` shows what there is",
        ),
        (["add", "b", "me@x", "--user", "you"], "me@x says user me, and --user says you"),
        (["add", "b", "x:70000"], "nodes.b.port: 70000 is not valid"),
        (["remove", "b"], "there is no node or group b to remove: there is a"),
        (["group", "g", "nobody"], "there is no node or group nobody"),
        (["list", "nobody"], "there is no node or group nobody"),
        (["trust", "nobody"], "there is no node or group nobody"),
        (["import", "x"], "there is no file"),
    ],
)
def test_what_makes_no_sense_is_said_and_changes_nothing(
    command: Command, words: list[str], said: str
) -> None:
    command.run("nodes", "add", "a", "x")
    before = inventory_path(command.home).read_bytes()
    done = command.run("nodes", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert inventory_path(command.home).read_bytes() == before


def test_a_book_that_is_wrong_is_said_to_be_with_its_lines(command: Command) -> None:
    command.home.mkdir()
    inventory_path(command.home).write_text("[nodes.a]\naddress = 1\n")
    done = command.run("nodes", "list")
    assert done.returncode == 2
    assert f"{inventory_path(command.home)}:2: nodes.a.address: 1 is a whole number" in done.stderr


def test_groups_hold_nodes_and_lose_those_that_are_removed(command: Command) -> None:
    for name in ("g0", "g1", "x"):
        command.run("nodes", "add", name, name)
    assert command.run("nodes", "group", "pair", "g[0-1]").stdout == "pair is g0, g1\n"
    assert command.json("nodes", "group", "all", "pair", "x") == {"group": "all", "nodes": ["g0", "g1", "x"]}
    assert command.run("nodes", "group", "one", "x").returncode == 0
    assert "group all: g0, g1, x" in command.run("nodes", "list").stdout
    assert [node["name"] for node in command.json("nodes", "list", "pair")["nodes"]] == ["g0", "g1"]
    assert command.run("nodes", "remove", "x").returncode == 0
    assert read_inventory(inventory_path(command.home)).groups == {
        "pair": NodeGroup(nodes=["g[0-1]"]),
        "all": NodeGroup(nodes=["pair"]),
    }
    assert command.run("nodes", "remove", "all", "pair").returncode == 0
    assert read_inventory(inventory_path(command.home)).groups == {}


SSH_CONFIG = """\
Include more/*.conf
Host gate
  HostName 10.0.0.1
Host gpu1 gpu2
  User me
  Port 2222
  ProxyJump gate,other:7
Host odd~name
  HostName x
Host direct
  ProxyCommand nc %h %p
Host * !gate
  IdentityFile ~/.ssh/special
"""


@pytest.fixture
def ssh_config(command: Command) -> Path:
    folder = Path(os.environ["HOME"]) / ".ssh"
    (folder / "more").mkdir(parents=True)
    (folder / "config").write_text(SSH_CONFIG)
    (folder / "more" / "lab.conf").write_text("Host lab1\n  HostName 10.9.9.9\n")
    return folder / "config"


def test_hosts_of_the_ssh_config_are_shown(command: Command, ssh_config: Path) -> None:
    command.run("nodes", "add", "gate", "gate")
    shown = command.run("nodes", "import").stdout.splitlines()
    assert shown[:-1] == [
        "lab1      10.9.9.9",
        "gate      10.0.0.1   (is in the node inventory)",
        "gpu1      me@gpu1:2222 through gate → other:7",
        "gpu2      me@gpu2:2222 through gate → other:7",
        f"odd~name  cannot be a node: it is not a valid name; expected {RIGHT_NAME}",
        "direct    direct by a ProxyCommand",
    ]
    assert [host["host"] for host in command.json("nodes", "import")["hosts"] if not host["possible"]] == [
        "odd~name"
    ]


def test_chosen_hosts_become_nodes_for_which_the_ssh_config_goes_on_counting(
    command: Command, ssh_config: Path
) -> None:
    assert command.run("nodes", "import", "gpu*").stdout == "imported gpu1, gpu2\n"
    assert inventory_of(command) == {name: NodeEntry(address=name) for name in ("gpu1", "gpu2")}

    def target() -> SshTarget:
        config = SshConfig((ssh_config,))
        return target_of("gpu1", read_inventory(inventory_path(command.home)), command.home, config)

    found = target()
    assert (found.user, found.port, [hop.host for hop in found.jumps]) == (
        *("me", 2222),
        ["10.0.0.1", "other"],
    )
    ssh_config.write_text(SSH_CONFIG.replace("Port 2222", "Port 2223").replace("User me", "User you"))
    assert (target().user, target().port) == ("you", 2223)
    again = command.run("nodes", "import", "gpu1", "lab1")
    assert again.stdout == "imported lab1\n"
    assert "gpu1 is already in the node inventory" in again.stderr
    assert command.run("nodes", "import", "nobody").returncode == 2
    assert command.json("nodes", "import", "--all") == {
        "imported": ["gate", "direct"],
        "left": ["lab1", "gpu1", "gpu2", "odd~name"],
    }


def test_hosts_of_another_file_are_written_down_whole(
    command: Command, ssh_config: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other config"
    other.write_text(ssh_config.read_text().replace("Include", "# Include"))
    done = command.run("nodes", "import", "--all", "--file", other)
    assert done.stdout == "imported gate, gpu1, gpu2\n"
    assert "direct cannot be a node: its proxycommand works only in ~/.ssh/config" in done.stderr
    home = Path(os.environ["HOME"])
    assert inventory_of(command)["gate"] == NodeEntry(address="10.0.0.1")
    assert inventory_of(command)["gpu1"].key == str(home / ".ssh" / "special")


def test_an_unknown_key_is_trusted_by_its_fingerprint_and_by_nothing_else(
    hosts: Hosts, command: Command
) -> None:
    made = hosts(2)
    (command.home / "known_hosts").unlink()
    inventory_path(command.home).write_text(made.nodes_toml())
    refused = command.run("nodes", "trust", "node1")
    assert refused.returncode == 3
    shown = next(word.rstrip(".") for word in refused.stderr.split() if word.startswith("SHA256:"))
    assert f"`torchdeck nodes trust node1 --fingerprint {shown}` saves it" in refused.stderr
    other = command.run("nodes", "trust", "node1", "--fingerprint", "SHA256:other")
    assert other.returncode == 3
    assert f"{shown}; --fingerprint SHA256:other does not match it." in other.stderr
    assert not (command.home / "known_hosts").exists()
    done = command.run("nodes", "trust", "node1", "node2", "--fingerprint", shown)
    assert done.returncode == 3
    assert done.stdout == f"node1: root@{made.address(1)}:22 answers, and its host key is trusted\n"
    assert "node node2: host key not verified" in done.stderr
    answers = command.run("nodes", "trust", "node1", "--json")
    assert answers.returncode == 0
    assert '"reached": true' in answers.stdout


def test_at_a_terminal_the_fingerprint_and_the_password_are_asked_for(hosts: Hosts, command: Command) -> None:
    made = hosts(1)
    password = made.allow_passwords(1, "canary-Pass 55")
    (command.home / "known_hosts").unlink()
    inventory_path(command.home).write_text(made.nodes_toml().replace("client_key", "no_key"))
    answers = [
        ("right one? (yes/no)", "yes"),
        ("Password of root@", "wrong"),
        ("Wrong. Password of root@", password),
    ]
    code, seen = typed(command, ["nodes", "trust", "node1"], answers)
    assert code == 0, seen
    assert "ssh-ed25519 SHA256:" in seen
    assert "its host key is trusted" in seen
    assert "canary" not in seen
    assert (command.home / "known_hosts").read_text() == made.known_hosts
    for file in command.home.rglob("*"):
        assert not file.is_file() or b"canary" not in file.read_bytes()


def test_who_says_no_at_the_terminal_trusts_nothing(hosts: Hosts, command: Command) -> None:
    made = hosts(1)
    (command.home / "known_hosts").unlink()
    inventory_path(command.home).write_text(made.nodes_toml())
    code, seen = typed(command, ["nodes", "trust", "node1"], [("right one? (yes/no)", "perhaps")])
    assert code == 3, seen
    assert not (command.home / "known_hosts").exists()


def test_a_password_is_kept_in_the_keyring_when_that_is_asked_for(
    hosts: Hosts, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hosts(1)
    password = made.allow_passwords(1, "canary-Pass 56")
    inventory_path(command.home).write_text(made.nodes_toml().replace("client_key", "no_key"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "support.hosts.file_keyring.FileKeyring")
    monkeypatch.setenv("TESTS_KEYRING_FILE", str(tmp_path / "secrets"))
    code, seen = typed(command, ["nodes", "trust", "node1", "--keyring", "keep"], [("Password of", password)])
    assert (code, "the keyring has password of root@" in seen) == (0, True), seen
    assert command.run("nodes", "trust", "node1").returncode == 0  # no one is there to be asked
    assert b"canary" not in b"".join(path.read_bytes() for path in command.home.rglob("*") if path.is_file())
    assert "forgot password of root@" in command.run("nodes", "trust", "node1", "--keyring", "forget").stdout
    assert command.run("nodes", "trust", "node1").returncode == 3


def test_imported_hosts_are_reached_through_the_jump_host_that_came_with_them(
    hosts: Hosts, command: Command
) -> None:
    made = hosts(2)
    made.block_port(2, "22", sender=made.here)
    (command.home / "known_hosts").unlink()
    folder = Path(os.environ["HOME"]) / ".ssh"
    folder.mkdir()
    (folder / "config").write_text(
        f"Host gate\n  HostName {made.address(1)}\n"
        f"Host inner\n  HostName {made.address(2)}\n  ProxyJump gate\n"
        f"Host *\n  User root\n  IdentityFile {made.key}\n"
    )
    assert command.run("nodes", "import", "--all").stdout == "imported gate, inner\n"
    assert inventory_of(command)["inner"].jump == []
    prints = [key_print(line) for line in made.known_hosts.splitlines()]
    words = [word for shown in prints for word in ("--fingerprint", shown)]
    done = command.run("nodes", "trust", "inner", *words)
    assert done.stdout == f"inner: root@{made.address(2)}:22 answers, and its host key is trusted\n", (
        done.stderr
    )


def key_print(known: str) -> str:
    """The fingerprint of the key in a line of known_hosts."""
    return fingerprint(base64.b64decode(known.split()[2]))


@pytest.mark.processes
def test_pythons_and_environments_of_this_machine_are_listed(command: Command, tmp_path: Path) -> None:
    """By their files: the environment's Python cannot even be started."""
    folder = tmp_path / "person/venvs/mine"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    (folder / "pyvenv.cfg").write_text("version = 3.11.7\n")
    (folder / "lib/python3.11/site-packages/torch-2.13.0.dist-info").mkdir(parents=True)
    shown = command.run("nodes", "probe", "localhost").stdout
    assert f"{folder}/bin/python: 3.11.7, torch 2.13.0" in shown
    assert "runs use this one" in shown
    (listed,) = [
        each for each in command.json("nodes", "probe", "localhost") if "venvs/mine" in each["executable"]
    ]
    assert listed["torch"] == "2.13.0"
