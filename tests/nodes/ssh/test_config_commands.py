"""Commands in an SSH config run if the file is the user's own, or trusted as it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from torchdeck.cli.main import main
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.config_commands import REFUSED, CommandGate
from torchdeck.nodes.ssh.config_file import SshConfig, hosts_of
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.target import SshTarget, target_for
from torchdeck.trust.trust_list import TrustList

pytestmark = pytest.mark.processes


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own ~/.ssh."""
    folder = tmp_path / "person" / ".ssh"
    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(folder.parent))
    return folder


@pytest.fixture
def home(torchdeck_home: Path) -> Path:
    torchdeck_home.mkdir(mode=0o700)
    return torchdeck_home


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there once the command has run."""
    return tmp_path / "ran"


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(0o600)
    return file


def matched(mark: Path) -> str:
    return f'Match exec "touch {mark}"\n  User matched\nHost one\n  HostName 10.0.0.1\n'


def target(home: Path, **entry: object) -> SshTarget:
    values = {"address": "one", **entry}
    return target_for("n", NodeEntry.model_validate(values), NodeInventory(), home)


def test_match_exec_of_the_users_own_files_counts(person: Path, home: Path, mark: Path) -> None:
    write(person / "more", matched(mark))
    write(person / "config", "Include more\n")
    assert target(home).user == "matched"
    assert mark.exists()


def test_a_file_that_is_sent_runs_nothing_before_it_is_trusted(
    person: Path, home: Path, mark: Path, tmp_path: Path
) -> None:
    """And no more once its content is another, or what it includes."""
    file = write(tmp_path / "sent", matched(mark))
    with pytest.raises(TargetError, match=f"{file} is not trusted yet: .*`torchdeck trust add {file}`"):
        hosts_of(file, home)
    assert not mark.exists()
    TrustList(home).add(file)
    (host,) = hosts_of(file, home)
    assert host.entry is not None
    assert mark.exists()
    mark.unlink()
    write(file, matched(mark) + "# more\n")
    with pytest.raises(TargetError, match="its content has changed"):
        hosts_of(file, home)
    inner = write(tmp_path / "inner", matched(mark))
    write(file, f"Host one\n  Include {inner}\n")
    TrustList(home).add(file)
    with pytest.raises(TargetError, match=f"{inner} is not trusted yet"):
        hosts_of(file, home)
    assert not mark.exists()


@pytest.mark.parametrize(
    "line",
    [
        'Match ex""ec {}',
        r"Match e\xec {}",
        'Match "exec" {}',
        "Match !ex''ec {}",
        'Match host one ex""ec {}',
        "match = exec {}",
        "Match = = exec {}",
        'MATCH=EX""EC {}',
        'Match="exec"="{}"',
        "Match exec {} '",
    ],
)
def test_a_command_is_found_however_it_is_written(
    line: str, person: Path, home: Path, mark: Path, tmp_path: Path
) -> None:
    """As paramiko splits a line: without quotes and backslashes."""
    text = line.format(f'"touch {mark}"') + "\n  User matched\nHost one\n  HostName 10.0.0.1\n"
    for file, included in ((tmp_path / "sent", False), (tmp_path / "outer", True)):
        write(file, f"Include {tmp_path}/sen?\n" if included else text)
        with pytest.raises(TargetError, match="is not trusted yet"):
            hosts_of(file, home)
    assert not mark.exists()


@pytest.mark.parametrize(
    "line",
    [
        '"Match" exec "touch {}"',
        'Match==exec "touch {}"',
        '"ProxyCommand" touch {}',
        "PROXYCOMMAND = touch {}",
        'ProxyCommand "none";touch {}',
        "ProxyJump none\nProxyCommand touch {}",
        "KnownHostsCommand touch {}",
        "PermitLocalCommand yes\nLocalCommand touch {}",
        "PKCS11Provider {}",
        "SecurityKeyProvider {}",
        "IdentityFile $(touch {})",
        "IdentityAgent `touch {}`",
        "Include $(touch {})",
        "Include ~$(touch {})/*",
        "HostName $(touch {})",
        "Match host one execute\n  User `touch {}`",
    ],
)
def test_a_lookup_runs_no_other_setting(
    line: str, person: Path, home: Path, mark: Path, tmp_path: Path
) -> None:
    """Keywords in quotes are none; what ssh runs only after a login, or reads as a library, is left alone."""
    file = write(tmp_path / "sent", f"Host one\n{line.format(mark)}\n")
    config = SshConfig((file,), CommandGate(TrustList(home)))
    found = {}
    with suppress(TargetError):
        found = config.lookup("one")
    assert str(found.get("proxycommand", REFUSED)).startswith(REFUSED)
    assert not mark.exists()


def test_an_import_by_command_runs_nothing_before_it_is_trusted(
    person: Path, home: Path, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "sent", matched(mark))
    for words in ([], ["--all"], ["--json"], ["one"]):
        assert main(["nodes", "import", "--file", str(file), *words]) != 0
        assert f"torchdeck trust add {file}" in capsys.readouterr().err
    assert not mark.exists()
    assert main(["trust", "add", str(file)]) == 0
    assert main(["nodes", "import", "--file", str(file), "--all"]) == 0
    assert mark.exists()


@pytest.mark.parametrize("where", ["config", "more", "shared"])
def test_what_others_can_write_is_never_run(
    where: str, person: Path, home: Path, mark: Path, tmp_path: Path
) -> None:
    """Be it the user's own file or one that it includes; what is in no command still counts."""
    (tmp_path / "lab").mkdir()
    included = {"config": person / "none", "more": person / "more", "shared": tmp_path / "lab" / "shared"}
    file = person / "config" if where == "config" else included[where]
    write(person / "config", f"Include {included[where]}\n")
    lines = f"Host one\n  ProxyCommand touch {mark}\n  User them\nHost two\n  User those\n"
    write(file, lines).chmod(0o666)
    with pytest.raises(
        TargetError, match=f"ProxyCommand may not run, as {file} cannot be trusted: .*chmod o-w"
    ):
        target(home)
    assert target(home, address="two").user == "those"
    assert target(home, jump=["two"]).proxy_command is None, "the book says another way"
    with pytest.raises(TargetError, match="ProxyCommand may not run"):
        target(home, address="two", jump=["one"])
    write(file, matched(mark)).chmod(0o666)
    with pytest.raises(TargetError, match="cannot be trusted"):
        target(home)
    assert not mark.exists()
    file.chmod(0o600)
    assert target(home).user == "matched"


def test_a_file_of_no_command_needs_no_trust(person: Path, home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "sent", "Host one\n  User me\n  ProxyCommand none\nHost two\n  ProxyCommand nc\n")
    one, two = hosts_of(file, home)
    assert one.entry is not None
    assert two.entry is None
    config = SshConfig((file,), CommandGate(TrustList(home)))
    assert config.lookup("one")["user"] == "me"
