"""Environments on a node that another user can change are refused before their code runs, by real shells."""

import grp
import hashlib
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.start_line import TrustedContent, python_line

pytestmark = pytest.mark.processes

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
OTHER = pwd.getpwnam("nobody")
SHELLS = [shell for shell in ("/bin/sh", "/bin/bash", "/bin/zsh") if Path(shell).exists()]


def started(
    home: Path, shell: str = "/bin/sh", trusted: TrustedContent | None = None, path: str = "", **keys: Any
) -> subprocess.CompletedProcess[str]:
    entry = NodeEntry.model_validate({"address": "x", **keys})
    environ = {"PATH": path or os.environ["PATH"], "HOME": str(home)}
    line = [shell, "-c", python_line(entry, ["-c", "print('ran')"], trusted)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=environ)


def refusal(home: Path, **keys: Any) -> str:
    """Its sentence; nothing of the environment ran."""
    done = started(home, **keys)
    assert (done.returncode, done.stdout) == (126, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "its folder"
    folder.mkdir(mode=0o755)
    path = folder / "set up.sh"
    path.write_text("echo sourced >&2\n")
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("named", ["absolute", "home"])
def test_an_environment_of_the_user_alone_runs(script: Path, shell: str, named: str, tmp_path: Path) -> None:
    path = str(script) if named == "absolute" else "~/its folder/set up.sh"
    done = started(tmp_path, shell, activate=path, python=sys.executable)
    assert (done.stdout, done.stderr) == ("ran\n", "sourced\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_that_everyone_can_write_is_not_sourced(script: Path, shell: str, tmp_path: Path) -> None:
    script.chmod(0o646)
    done = started(tmp_path, shell, activate=str(script))
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == f"{script}: not sourced, as everyone can write {script}: chmod o-w '{script}'\n"


def test_a_folder_above_that_everyone_can_write_is_enough_to_refuse(script: Path, tmp_path: Path) -> None:
    script.parent.chmod(0o777)
    found = refusal(tmp_path, activate=str(script))
    assert f"everyone can write {script.parent}: chmod o-w" in found
    script.parent.chmod(0o1777)  # as /tmp: only the owner of the script can replace it
    assert started(tmp_path, activate=str(script), python=sys.executable).stdout == "ran\n"


def test_a_group_counts_as_others_unless_it_is_the_users_own(script: Path, tmp_path: Path) -> None:
    script.chmod(0o664)
    own = grp.getgrgid(os.getegid()).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    if own:
        assert started(tmp_path, activate=str(script), python=sys.executable).stdout == "ran\n"
    else:
        assert f"its group can write {script}" in refusal(tmp_path, activate=str(script))


@as_root
def test_another_group_that_can_write_is_refused(script: Path, tmp_path: Path) -> None:
    os.chown(script, -1, OTHER.pw_gid)
    script.chmod(0o664)
    assert f"its group can write {script}: chmod g-w '{script}'" in refusal(tmp_path, activate=str(script))


@as_root
@pytest.mark.parametrize("what", ["script", "folder"])
def test_code_of_another_user_is_refused_until_the_inventory_trusts_its_owner(
    script: Path, what: str, tmp_path: Path
) -> None:
    place = script if what == "script" else script.parent
    os.chown(place, OTHER.pw_uid, OTHER.pw_gid)
    place.chmod(0o775)  # as software folders of a cluster, which a group of maintainers can write
    found = refusal(tmp_path, activate=str(script))
    assert found.startswith(f"{script}: not sourced, as {place} belongs to nobody.")
    assert 'add trusted_owners = ["nobody"]' in found
    keys: dict[str, Any] = {"activate": str(script), "python": sys.executable, "trusted_owners": ["nobody"]}
    assert started(tmp_path, **keys).stdout == "ran\n"
    place.chmod(0o777)
    assert f"everyone can write {place}" in refusal(tmp_path, **keys)


@as_root
def test_a_link_that_another_user_can_turn_is_refused(script: Path, tmp_path: Path) -> None:
    """Both in a folder of another user, and by another user in a folder like /tmp."""
    folder = tmp_path / "links"
    folder.mkdir(mode=0o777)
    (folder / "set up.sh").symlink_to(script)
    outer = tmp_path / "outer.sh"
    outer.symlink_to("links/set up.sh")
    folder.chmod(0o777)
    assert f"everyone can write {folder}" in refusal(tmp_path, activate=str(outer))
    folder.chmod(0o1777)
    assert started(tmp_path, activate=str(outer), python=sys.executable).stdout == "ran\n"
    os.chown(folder / "set up.sh", OTHER.pw_uid, OTHER.pw_gid, follow_symlinks=False)
    assert f"{folder}/set up.sh belongs to nobody" in refusal(tmp_path, activate=str(outer))


@pytest.mark.parametrize("place", ["bin", "lib/python3.11/site-packages", "."])
@pytest.mark.parametrize("key", ["venv", "python"])
def test_a_virtual_environment_whose_folders_others_can_write_is_not_run(
    key: str, place: str, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to(sys.executable)
    keys: dict[str, Any] = {key: str(venv) if key == "venv" else str(venv / "bin/python")}
    for folder in (venv, *venv.rglob("*")):
        if not folder.is_symlink():
            folder.chmod(0o755)
    assert started(tmp_path, **keys).stdout == "ran\n"
    (venv / place).chmod(0o777)
    assert "not run, as everyone can write" in refusal(tmp_path, **keys)


@pytest.mark.parametrize(
    "place",
    [
        "miniforge3/etc/profile.d/conda.sh",
        "miniforge3/bin",
        "miniforge3/envs/torch/bin",
        "miniforge3/envs",
        ".conda/envs/torch",
    ],
)
@pytest.mark.parametrize("environment", ["torch", "~/miniforge3/envs/torch"])
def test_a_conda_that_others_can_write_is_not_sourced(environment: str, place: str, tmp_path: Path) -> None:
    root = tmp_path / "miniforge3"
    for folder in ("etc/profile.d", "bin", "envs/torch/bin", "../.conda/envs/torch/bin"):
        (root / folder).mkdir(parents=True, mode=0o755)
    (root / "bin/conda").write_text("")
    (root / "envs/torch/bin/python").symlink_to(sys.executable)
    (root / "etc/profile.d/conda.sh").write_text(f"conda() {{ PATH={Path(sys.executable).parent}:$PATH; }}\n")
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755)
    assert started(tmp_path, conda=environment).stdout == "ran\n"
    (tmp_path / place).chmod(0o777)
    if place.startswith(".conda") and environment != "torch":
        assert started(tmp_path, conda=environment).stdout == "ran\n", "another environment is meant"
        return
    assert "not run, as everyone can write" in refusal(tmp_path, conda=environment)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_whose_content_is_not_the_trusted_one_is_not_sourced(
    script: Path, shell: str, tmp_path: Path
) -> None:
    """Also behind a link. With no content trusted, it does not run either."""
    content = TrustedContent(hashlib.sha256(script.read_bytes()).hexdigest(), "read it, then say so")
    link = tmp_path / "link.sh"
    link.symlink_to(script)
    keys: dict[str, Any] = {"activate": str(link), "python": sys.executable}
    assert started(tmp_path, shell, content, **keys).stdout == "ran\n"
    script.write_text("echo other >&2\n")
    done = started(tmp_path, shell, content, **keys)
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == f"{link}: not sourced, as its content is not what was trusted: {content.fix}\n"
    assert started(tmp_path, shell, content._replace(digest="none"), **keys).returncode == 126


@as_root
def test_content_does_not_count_if_a_trusted_owner_maintains_the_script(script: Path, tmp_path: Path) -> None:
    """root's does not either, unless root is the user: then it is the user's own."""
    other = TrustedContent("0" * 64, "read it")
    os.chown(script, OTHER.pw_uid, OTHER.pw_gid)
    keys: dict[str, Any] = {"activate": str(script), "python": sys.executable, "trusted_owners": ["nobody"]}
    assert started(tmp_path, trusted=other, **keys).stdout == "ran\n"
    os.chown(script, 0, 0)
    assert started(tmp_path, trusted=other, **keys).returncode == 126


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("brought", ["by the login", "by the script"])
def test_a_python_on_path_that_others_can_write_is_not_run(brought: str, shell: str, tmp_path: Path) -> None:
    folder = tmp_path / "tools/bin"
    folder.mkdir(parents=True, mode=0o755)
    (folder / "python3").symlink_to(sys.executable)
    script = tmp_path / "on.sh"
    script.write_text(f"PATH={folder}:$PATH\n" if brought == "by the script" else "")
    script.chmod(0o644)
    path = f"{folder}:/usr/bin:/bin" if brought == "by the login" else ""
    keys: dict[str, Any] = {"activate": str(script)}
    assert started(tmp_path, shell, path=path, **keys).stdout == "ran\n"
    folder.chmod(0o777)
    done = started(tmp_path, shell, path=path, **keys)
    assert (done.returncode, done.stdout) == (126, ""), done.stderr
    assert f"{folder}/python3: not run, as everyone can write {folder}" in done.stderr
    missing = started(tmp_path, shell, path=path, python="python3.nowhere", **keys)
    assert (missing.returncode, "python3.nowhere" in missing.stderr) == (127, True), missing.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_conda_environment_in_a_folder_of_condas_settings_is_checked_before_it_is_activated(
    shell: str, tmp_path: Path
) -> None:
    """The stub answers as conda does: by the commands that activate it."""
    env, profile = tmp_path / "big disk/envs/torch", tmp_path / "miniforge3/etc/profile.d"
    (env / "bin").mkdir(parents=True, mode=0o755)
    (env / "bin/python3").symlink_to(sys.executable)
    profile.mkdir(parents=True, mode=0o755)
    (profile / "conda.sh").write_text(
        "conda() { case $1 in\n"
        f"""  shell.posix) printf '%s\\n' "PS1='(torch) '" "export CONDA_PREFIX='{env}'" ;;\n"""
        f"""  activate) echo activated >&2; PATH="{env}/bin:$PATH" ;;\n"""
        "esac; }\n"
    )
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755)
    done = started(tmp_path, shell, conda="torch")
    assert (done.stdout, done.stderr) == ("ran\n", "activated\n")
    env.parent.chmod(0o777)
    said = f"{env}/bin/python3: not run, as everyone can write {env.parent}: chmod o-w '{env.parent}'\n"
    assert started(tmp_path, shell, conda="torch").stderr == said


def test_a_missing_file_is_reported_by_starting_it(tmp_path: Path) -> None:
    done = started(tmp_path, python=str(tmp_path / "no" / "python"))
    assert done.returncode == 127
    assert "not found" in done.stderr or "No such file" in done.stderr
