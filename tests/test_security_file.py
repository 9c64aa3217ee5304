"""SECURITY.md: what it names is there."""

import re
from pathlib import Path

import pytest

from torchdeck.cli.main import main
from torchdeck.config.loader import config_from_dict

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_it_is_short_enough_to_be_read() -> None:
    assert len(TEXT.split()) < 1000


@pytest.mark.parametrize("file", sorted(set(re.findall(r"packaging/[\w./]+\w", TEXT))))
def test_files_that_it_names_are_there(file: str) -> None:
    assert (ROOT / file).is_file()


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`torchdeck (\w+(?: (?:list|add))?)", TEXT))))
def test_commands_that_it_names_are_there(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0


def test_settings_that_it_names_are_there(tmp_path: Path) -> None:
    asked = {"rendezvous": {"backend": "c10d"}}
    tables = {"run": {"script": "a.py", "secrets": ["TOKEN"], "env": {}}, "distributed": asked}
    config = config_from_dict({**tables, "launch": {"trusted_network": True}}, tmp_path)
    assert config.launch.trusted_network
    for name in (
        "run.secrets",
        "launch.trusted_network",
        "rendezvous.backend",
        "rendezvous.port",
        "[run.env]",
    ):
        assert f"`{name}" in TEXT
