"""Environments of a home folder, by their files."""

from __future__ import annotations

from pathlib import Path

from torchdeck.agent.probe.environments import MOST, environments


def environment(folder: Path, config: str = "version = 3.11.7\n", torch: str = "") -> Path:
    site = folder / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").write_text("#!/bin/sh\nexit 1\n")  # never executed
    if config:
        (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\n{config}")
    if torch:
        (site / f"torch-{torch}.dist-info").mkdir()
    return folder


def test_environments_are_found_where_tools_put_them(tmp_path: Path) -> None:
    """Those with torch come first; folders that only look alike are none."""
    plain = environment(tmp_path / ".virtualenvs/plain")
    uv = environment(tmp_path / "work/model/.venv", "uv = 0.9.1\nversion_info = 3.12.1\n", "2.13.0")
    conda = environment(tmp_path / "miniforge3/envs/train", "", "2.10.0+cu128")
    (conda / "conda-meta").mkdir()
    (conda / "conda-meta/python-3.10.14-h955ad1f_1.json").touch()
    elsewhere = environment(tmp_path / "disk/elsewhere")
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda/environments.txt").write_text(f"{elsewhere}\nrelative\n/no/such\n")
    environment(tmp_path / "venvs/nothing", "")
    (tmp_path / "venvs/empty").mkdir()
    found = [(each["executable"], each["version"], each["torch"]) for each in environments(tmp_path)]
    assert found == [
        (f"{conda}/bin/python", "3.10.14", "2.10.0+cu128"),
        (f"{uv}/bin/python", "3.12.1", "2.13.0"),
        (f"{plain}/bin/python", "3.11.7", None),
        (f"{elsewhere}/bin/python", "3.11.7", None),
    ]


def test_number_of_environments_is_bounded(tmp_path: Path) -> None:
    for number in range(MOST + 5):
        environment(tmp_path / f"venvs/e{number:02}")
    assert len(environments(tmp_path)) == MOST
    assert environments(tmp_path / "no such home") == []


def test_own_environment_of_the_project_comes_first(tmp_path: Path) -> None:
    environment(tmp_path / "home/venvs/a")
    own = environment(tmp_path / "project/.venv")
    found = environments(tmp_path / "home", tmp_path / "project")
    assert found[0]["executable"] == f"{own}/bin/python"
