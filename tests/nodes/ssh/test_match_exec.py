"""The command of a `Match exec` in an ssh config runs as under ssh."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

LOOKUP = """
import sys
from pathlib import Path
from torchdeck.nodes.ssh.config_file import SshConfig
print(SshConfig((Path(sys.argv[1]),)).lookup("somewhere").get("user"))
"""


def test_a_match_by_a_command_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads nothing of what is typed, and what it prints is not printed."""
    config = tmp_path / ".ssh" / "config"
    config.parent.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    config.write_text(
        'Match exec "false"\n  User berta\nMatch exec "echo noise; read -r line || true"\n  User anna\n'
    )
    assert _said("-c", LOOKUP, str(config)) == "anna"


def _said(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        input="typed",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()
