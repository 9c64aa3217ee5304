"""What runs were started with: run file and `--set` together."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from support.values.made_runs import make_run
from torchdeck.contract.bounded_file import UnreadableFileError
from torchdeck.contract.journal import Event
from torchdeck.runs.folders.origin import FrozenRunFile, frozen_run_file

TEXT = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\n'


def created(**fields: object) -> Event:
    return Event("created", 1.0, 1.0, fields)


def test_overrides_of_the_start_stand_in_the_text(tmp_path: Path) -> None:
    made = make_run(tmp_path, [created(source="/a/run.toml", overrides=["training.epochs=2", "name=x"])])
    made.config.write_text(TEXT)
    frozen = frozen_run_file(made)
    assert tomllib.loads(frozen.text) == {
        "name": "x",
        "run": {"recipe": "byte-gpt"},
        "training": {"epochs": 2},
    }
    assert frozen.source == "/a/run.toml"


@pytest.mark.parametrize("fields", [{}, {"overrides": 3, "source": None}, {"overrides": [], "source": ""}])
def test_without_overrides_it_is_the_file_byte_for_byte(tmp_path: Path, fields: dict[str, object]) -> None:
    made = make_run(tmp_path, [created(**fields)])
    made.config.write_text(TEXT)
    assert frozen_run_file(made) == FrozenRunFile(TEXT, "")
    made.journal.write_text(json.dumps({"v": 1}) + "\n")
    assert frozen_run_file(made) == FrozenRunFile(TEXT, "")


def test_a_run_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        frozen_run_file(make_run(tmp_path, [created()]))


@pytest.mark.timeout(20)
def test_what_is_no_run_file_is_an_error_at_once(tmp_path: Path) -> None:
    """A named pipe, a device, a folder, and a file without end."""
    made = make_run(tmp_path, [created()])
    os.mkfifo(made.config)
    with pytest.raises(UnreadableFileError, match="named pipe"):
        frozen_run_file(made)
    made.config.unlink()
    made.config.symlink_to("/dev/zero")
    with pytest.raises(UnreadableFileError, match="character device"):
        frozen_run_file(made)
    made.config.unlink()
    made.config.mkdir()
    with pytest.raises(OSError, match="is a folder"):
        frozen_run_file(made)
    made.config.rmdir()
    made.config.touch()
    os.truncate(made.config, 1 << 30)
    with pytest.raises(UnreadableFileError, match="too large"):
        frozen_run_file(made)
