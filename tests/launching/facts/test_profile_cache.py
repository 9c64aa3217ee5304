"""Profiles that are kept: by content, not too many, and never in the way."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.training.profiled_recipe import RUN, trusted
from support.values.run_files import load, write
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.package import FOLDER
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.launching.facts import profile_cache
from torchdeck.launching.facts.profile_cache import KEPT, TRACER, ProfileCache, profile_key

PROFILE = ModelProfile("traced", (), (), ("",), "fp32", ())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the recipe is."""
    return tmp_path / "code"


@pytest.fixture
def config(home: Path, folder: Path) -> RunConfig:
    """A run of a recipe file."""
    return trusted(folder, home)


def facts() -> InterpreterFacts:
    return InterpreterFacts(sys.executable, "3.11.7", "2.13.0", "2.0.0")


@pytest.mark.parametrize(
    "damage", [b"", b'{"key": ', b"[]", b'{"key": "other", "profile": {}}', b'{"profile": {"version": 99}}']
)
def test_a_damaged_entry_counts_as_none(damage: bytes, home: Path) -> None:
    """Cut short, of another kind, of another key, or of a newer Torchdeck: it will be traced again."""
    cache = ProfileCache(home)
    profile = ModelProfile("traced", (), (), ("",), "fp32", ())
    assert cache.read("k") is None
    cache.write("k", profile.to_json())
    assert cache.read("k") == profile
    (home / "profiles" / "k.json").write_bytes(damage)
    assert cache.read("k") is None
    cache.write("k", profile.to_json())
    assert cache.read("k") == profile


def test_the_cache_keeps_the_newest(home: Path) -> None:
    """It does not grow without end, and what was read lately stays."""
    cache = ProfileCache(home)
    content = ModelProfile("traced", (), (), ("",), "fp32", ()).to_json()
    for i in range(KEPT):
        cache.write(f"k{i}", content)
        os.utime(home / "profiles" / f"k{i}.json", (i, i))
    assert cache.read("k0") is not None
    cache.write("new", content)
    assert {path.stem for path in (home / "profiles").iterdir()} == {
        "new",
        "k0",
        *(f"k{i}" for i in range(2, KEPT)),
    }


def test_the_key_follows_what_a_profile_depends_on(config: RunConfig, folder: Path, tmp_path: Path) -> None:
    """Code, a data file's content, options, versions and the request change it; unrelated keys do not."""

    def key(one: RunConfig = config, request: Any = None, used: InterpreterFacts | None = None) -> str:
        return profile_key(one, request or {"traces": []}, used or facts())

    keys = [key()]
    assert key() == keys[0]
    assert key(load(folder, RUN + "lr = 0.5\n")) == keys[0]
    keys.append(key(request={"traces": [1]}))
    keys.append(key(used=InterpreterFacts(sys.executable, "3.11.7", "2.14.0", "2.0.0")))
    keys.append(key(load(folder, RUN.replace("[model]", 'env = {A = "1"}\n[model]'))))
    (folder / "data.bin").write_bytes(b"123")
    keys.append(key())
    (folder / "data.bin").write_bytes(b"1234")
    keys.append(key())
    write(folder, "x = 1\n", "helper.py")
    keys.append(key())
    elsewhere = config.model_copy(
        update={"run": config.run.model_copy(update={"working_dir": str(tmp_path / "x")})}
    )
    keys.append(key(elsewhere))
    write(folder, "x = 2\n", "helper.py")
    keys.append(key(elsewhere))
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    of_venv = InterpreterFacts(str(tmp_path / "venv" / "bin" / "python"), "3.11.7", "2.13.0", "2.0.0")
    keys.append(key(used=of_venv))
    os.utime(packages, (5, 5))
    keys.append(key(used=of_venv))
    assert len(set(keys)) == len(keys)


def test_our_own_code_is_where_it_is_looked_for() -> None:
    """A part that a move left behind would count no more."""
    assert [part for part in TRACER if not (Path(FOLDER) / part).exists()] == []


def test_our_own_code_is_read_again_only_where_it_changed(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every edit of a run file its key is asked for: sizes and times must do until a file is another."""
    package = tmp_path / "torchdeck"
    for name in (
        "tracing/tracer.py",
        "distributed/deep/er.py",
        "recipes/gpt.py",
        "contract/plan/model_profile.py",
    ):
        write((package / name).parent, f"name = {name!r}\n", Path(name).name)
    monkeypatch.setattr(profile_cache, "FOLDER", str(package))
    read: list[Path] = []
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noted)

    def key() -> tuple[str, int]:
        read.clear()
        made = profile_key(config, {}, facts())
        return made, sum(path.is_relative_to(package) for path in read)

    first, count = key()
    assert count == 4
    assert key() == (first, 0)
    changed = package / "distributed" / "deep" / "er.py"
    changed.write_text(changed.read_text().upper())  # as long as before
    os.utime(changed, ns=(1, 1))
    second, count = key()
    assert (second != first, count) == (True, 4)
    write(package / "recipes", "", "more.py")
    third, _ = key()
    assert len({first, second, third}) == 3
    (package / "recipes" / "more.py").unlink()
    assert key()[0] == second


def refuse(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_written_is_read_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile in a folder that has become read-only is found, though not marked as used."""
    cache = ProfileCache(home)
    cache.write("k", PROFILE.to_json())
    monkeypatch.setattr(os, "utime", refuse)
    assert cache.read("k") == PROFILE


def test_a_full_disk_only_means_no_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised, nothing half-written is left; nor where the home is no folder at all."""
    monkeypatch.setattr(Path, "replace", refuse)
    cache = ProfileCache(home)
    cache.write("k", PROFILE.to_json())
    assert list((home / "profiles").iterdir()) == []
    file = home / "file"
    file.touch()
    nowhere = ProfileCache(file)
    nowhere.write("k", PROFILE.to_json())
    assert nowhere.read("k") is None


def test_what_a_killed_writer_left_is_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour; that of one who may still write stays."""
    cache = ProfileCache(home)
    cache.write("k", PROFILE.to_json())
    old, new = home / "profiles" / ".a.json.1.tmp", home / "profiles" / ".b.json.2.tmp"
    old.touch()
    new.touch()
    os.utime(old, (5, 5))
    cache.write("l", PROFILE.to_json())
    assert {path.name for path in (home / "profiles").iterdir()} == {"k.json", "l.json", new.name}
