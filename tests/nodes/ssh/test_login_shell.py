"""Programs started through login shells of all kinds, on a real sshd."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hosts.hosts import TestHosts
from torchdeck.launching.remote.dial import SshDial
from torchdeck.launching.remote.link import RefusedError
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.probing import Probed, Question, probe_node
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.login_shell import neutral_line
from torchdeck.nodes.ssh.target import target_for

SHELLS = [path for name in ("bash", "dash", "zsh", "ksh", "tcsh", "fish") if (path := shutil.which(name))]
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)

ODD_FILES = {
    "prints": {".bashrc": "echo welcome to the cluster; echo quota: 93 % >&2\n"},
    "reads standard input": {".bashrc": "read -r answer; read -r another; echo thanks $answer\n"},
    "becomes zsh": {".bashrc": "exec zsh\n", ".zshenv": "echo zsh is better\n"},
    "prints lines without an end": {".bashrc": "printf 'no newline'; set -v\n"},
}
ODD_SHELLS = {
    "zsh": {".zshenv": "echo hello; read -r line\n"},
    "tcsh": {".cshrc": "echo hello\n"},
    "dash": {},
}


@pytest.mark.processes
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_runs_the_same_line(shell: str) -> None:
    script = """printf '%s|' "a'b" 'c!d' "$(printf 'e\\nf')"; IFS= read -r x; printf '%s' "<$x>" """
    done = subprocess.run(
        [shell, "-c", neutral_line(script)],
        input="in\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "a'b|c!d|e\nf|<in>"


@settings(max_examples=15)
@given(TEXTS)
def test_a_line_holds_nothing_that_a_shell_would_read_as_its_own(text: str) -> None:
    """Whatever the script: one line, and none of the characters on which shells disagree."""
    assert not set(neutral_line(text)) & set("\n\\!{}*?~#")


class Account:
    """root's login shell and start-up files on one host."""

    def __init__(self, made: TestHosts, home: Path) -> None:
        self._made, self._home = made, home
        self._passwd = made.folder / "host1" / "passwd"
        self._first = self._passwd.read_text()
        self.entry = NodeEntry.model_validate(made.entry(1))

    def shell(self, path: str) -> None:
        """The host has this very file mounted: it is changed in its place."""
        with self._passwd.open("r+") as file:
            file.truncate()
            file.write(self._first.replace(":/bin/bash\n", f":{path}\n", 1))

    def files(self, files: dict[str, str]) -> None:
        for old in self._made.home(1).glob(".*rc"):
            old.unlink()
        (self._made.home(1) / ".zshenv").unlink(missing_ok=True)
        for name, text in files.items():
            (self._made.home(1) / name).write_text(text)

    def probe(self, **entry: str) -> Probed:
        changed = NodeEntry.model_validate(self._made.entry(1, **entry))
        return probe_node("n1", changed, Connector(self._home).connect, Question())

    def dial(self) -> SshDial:
        target = target_for("n1", self.entry, NodeInventory(), self._home)
        return SshDial(target, Credentials(), NoAsker(), self.entry)


@pytest.fixture
def account(hosts: Callable[..., TestHosts], torchdeck_home: Path) -> Account:
    made = hosts(1)
    made.trust(torchdeck_home)
    inventory_path(torchdeck_home).write_text(made.nodes_toml().replace("node1", "n1"))
    return Account(made, torchdeck_home)


def test_odd_start_up_files_and_shells_are_coped_with(account: Account) -> None:
    cases = {name: ("/bin/bash", files) for name, files in ODD_FILES.items()}
    cases |= {name: (shutil.which(name) or name, files) for name, files in ODD_SHELLS.items()}
    failed = {}
    for name, (shell, files) in cases.items():
        account.shell(shell)
        account.files(files)
        found = account.probe()
        if found.facts is None:
            failed[name] = found.error
    assert failed == {}


def test_a_function_of_the_start_up_files_is_there_for_the_activation_script(
    account: Account, tmp_path: Path
) -> None:
    """As `module` of Lmod and Environment Modules is, which only bash's own start-up files define."""
    account.files({".bashrc": 'module() { export LOADED="$2"; [ "$1" = load ]; }\n'})
    script = tmp_path / "activate.sh"
    script.write_text("module load PyTorch/2.13\n")
    script.chmod(0o600)
    assert account.probe(activate=str(script)).error == ""


@pytest.mark.parametrize(
    ("shell", "said"), [("/usr/sbin/nologin", "is nologin"), ("/bin/false", "as /bin/false does")]
)
def test_an_account_that_runs_no_commands_is_named(account: Account, shell: str, said: str) -> None:
    account.shell(shell)
    found = account.probe()
    assert "the login shell of root" in found.error
    assert said in found.error
    assert "chsh -s /bin/bash root" in found.error
    with pytest.raises(RefusedError, match="the login shell of root"):
        account.dial()(20.0)


def test_start_up_files_that_take_all_input_are_named(account: Account) -> None:
    account.files({".bashrc": "echo reading; cat >/dev/null\n"})
    with pytest.raises(
        ConnectionError, match=r"ran no command within .* \(it printed: reading\).*read standard"
    ):
        account.dial()(10.5)
