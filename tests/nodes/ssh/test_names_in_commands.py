"""Names of hosts and users are names, wherever they come from, before a command has them in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.config.problems import ConfigError
from torchdeck.nodes.inventory.file import parse_inventory
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.config_file import SshConfig, hosts_of
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.target import SshTarget, target_for

Target = Callable[..., SshTarget]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Of an SSH config, and an entry of the node inventory that was not checked."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def made(text: str, **values: object) -> SshTarget:
        file = tmp_path / ".ssh" / "config"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        entry = NodeEntry.model_construct(**{**NodeEntry(address="h").model_dump(), **values})
        return target_for("n", entry, NodeInventory(), tmp_path / "td", SshConfig((file,)))

    return made


@pytest.mark.parametrize("token", ["%h", "%r", "%n", "%p"])
@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ("HostName $(touch {})", {}),
        ("User x;touch${{IFS}}{}", {}),
        ("Port 22;touch${{IFS}}{}", {}),
        ("", {"address": "x;touch${{IFS}}{}"}),
        ("", {"user": "`touch${{IFS}}{}`"}),
        ("", {"user": "-oProxyCommand=touch${{IFS}}{}"}),
    ],
)
def test_match_exec_is_not_run_with_what_is_no_name(
    target: Target, tmp_path: Path, token: str, settings: str, values: dict[str, str]
) -> None:
    mark = tmp_path / "ran"
    filled = {key: value.format(mark) for key, value in values.items()}
    text = f'Host *\n  {settings.format(mark)}\nMatch exec "touch {mark}; true {token}"\n  Port 9\n'
    with pytest.raises(TargetError, match=r"is no (host name|user's name|port)"):
        target(text, **filled)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Host *\n  HostName a;b\n  ProxyCommand nc %h %p\n", {}),
        ("Host *\n  User a|b\n  ProxyCommand nc %r\n", {}),
        ("Host *\n  HostName -oProxyCommand=x\n", {}),
        ("Host *\n  User -l\n", {}),
        ("Host *\n  ProxyJump -oProxyCommand=x\n", {}),
        ("Host *\n  ProxyJump $(id)@gate\n", {}),
        ("Host *\n  ProxyJump ssh://a`id`@gate:22\n", {}),
        ("Host gate\n  HostName a&b\n", {"jump": ["gate"]}),
        ("", {"jump": ["[::1;id]"]}),
        ("", {"jump": ["-J@gate"]}),
        ("", {"address": "a\u202eb"}),
        ("", {"user": "a\nProxyCommand id"}),
    ],
)
def test_no_connection_is_made_to_what_is_no_name(target: Target, text: str, values: dict[str, str]) -> None:
    with pytest.raises(TargetError, match=r"is (no|not a) (host name|user's name|jump host)"):
        target(text, **values)


def test_names_as_they_are_reach_a_proxy_command(target: Target) -> None:
    text = "Host *\n  HostName fe80::1%eth0\n  User LAB\\me\n  ProxyCommand nc %h %p %r\n"
    assert target(text).proxy_command == "nc fe80::1%eth0 22 LAB\\me"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("address", "a;b"),
        ("address", "$HOME"),
        ("user", "a`id`"),
        ("user", "a\\\\"),
        ("interface", "eth0;id"),
        ("training_address", "-h"),
        ("jump", ["gate", "a|b@gate"]),
        ("jump", ["-oProxyCommand=id"]),
    ],
)
def test_the_node_book_refuses_them_with_their_lines(key: str, value: object) -> None:
    written = value if isinstance(value, list) else f'"{value}"'
    text = "[nodes.n]\n" + ("" if key == "address" else 'address = "h"\n') + f"{key} = {written}\n"
    with pytest.raises(ConfigError) as caught:
        parse_inventory(text, "nodes.toml")
    (problem,) = caught.value.problems
    assert problem.path.startswith(f"nodes.n.{key}")
    assert "is no" in problem.wrong
    assert problem.line == (2 if key == "address" else 3)


@pytest.mark.parametrize(
    "tables",
    [
        {"distributed": {"nodes": ["a;id"]}},
        {"distributed": {"nodes": ["gpu[1-3]$(id)"]}},
        {"cluster": {"nodes": [{"name": "a|b"}]}},
        {"cluster": {"nodes": [{"name": "gpu[1-2]", "address": "`id`[1-2]"}]}},
        {"cluster": {"nodes": [{"name": "a", "address": "-oProxyCommand=id"}]}},
    ],
)
def test_a_run_file_names_no_nodes_by_them(tables: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"special meaning in a shell|not a valid name"):
        config_from_dict({"run": {"script": "t.py"}, **tables}, tmp_path)


def test_an_import_leaves_them_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that someone sent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "sent"
    file.write_text("Host good\n  HostName 10.0.0.1\nHost bad\n  HostName a;id\nHost worse\n  User x`id`\n")
    found = {host.name: host for host in hosts_of(file, tmp_path / "td")}
    assert found["good"].entry is not None
    assert found["bad"].entry is found["worse"].entry is None
    assert "is not a valid name" in found["bad"].where
