"""Names of hosts and users that may stand in a command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.values.node_names import host_fault, user_fault

GOOD_HOSTS = ["gpu7", "10.0.0.5", "fe80::1%eth0", "a_b-c.example", "bücher.example", "h"]
GOOD_USERS = ["root", "me#2", "LAB\\me", "first.last", "me@lab.example", "_x-1"]


@pytest.mark.parametrize("name", GOOD_HOSTS)
def test_hosts_as_they_are_are_good(name: str) -> None:
    assert host_fault(name) == ""


@pytest.mark.parametrize("name", GOOD_USERS)
def test_users_as_they_are_are_good(name: str) -> None:
    assert user_fault(name) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        ("-oProxyCommand=x", "dash"),
        ("a;b", "; in it"),
        ("$(id)", "$ in it"),
        ("a b", "a blank"),
        ("a\nb", "a blank"),
        ("a\x07", "0x07"),
        ("a\u202eb", "0x202e"),
        ("~root", "~"),
        ("\udcff", "0xdcff"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, said: str) -> None:
    assert said in host_fault(name)
    assert said in user_fault(name)


def test_a_user_does_not_end_with_a_backslash() -> None:
    """It would take the meaning of what follows it in a command."""
    assert "backslash" in user_fault("me\\")


@pytest.mark.processes
def test_a_real_shell_passes_every_good_host_on_unchanged(tmp_path: Path) -> None:
    """All names of two ASCII characters, where there are files that a pattern would find."""
    for name in ("a", "ab", "-x"):
        (tmp_path / name).touch()
    pairs = (chr(one) + chr(two) for one in range(1, 128) for two in range(1, 128))
    names = [name for name in pairs if not host_fault(name)]
    assert len(names) > 4000
    script = "printf '%s\\n' " + " ".join(names)
    shell = ["/bin/sh", "-s"]
    done = subprocess.run(
        shell, input=script.encode(), capture_output=True, check=True, timeout=20, cwd=tmp_path
    )
    assert done.stdout.decode().split("\n")[:-1] == names


@pytest.mark.processes
@given(st.text(alphabet="ab-$`'\"\\;&<>|(){}~ \t\x01", min_size=1, max_size=6))
def test_no_name_is_good_that_ssh_refuses(name: str) -> None:
    """`ssh -G` is asked: it ends with an error for a name that it takes for none."""
    asked = subprocess.run(
        ["ssh", "-F", "none", "-G", "--", name], capture_output=True, text=True, check=False, timeout=20
    )
    if asked.returncode:
        assert host_fault(name)
