"""What is seen of a run file at a glance: as the checked config has it, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.config.foreseen import Foreseen, foreseen
from torchdeck.config.loader import load_config
from torchdeck.config.problems import ConfigError

SEEN = [
    ("[distributed]\nnodes = ['a', 'b']", []),
    ("[distributed]\nnodes = ['a', 'tag:fast']\n[run]\nsecrets = ['KEY', 'TOKEN']", []),
    ("[distributed]\nnodes = '1:2'", []),
    ("[distributed]\nnodes = ['a']", ["distributed.nodes=['c', 'd']"]),
    ("[distributed]\nnodes = ['a']", ['distributed.nodes=["c"]', 'distributed . nodes = ["e"]']),
    ("[run]\nsecrets = ['KEY']", ["run.secrets=[]", 'distributed.nodes=["c"]', "launch.queue=true"]),
    ("", ['distributed.nodes="1:3"', "run.args=['x', 'y=z']", "distributed.nproc=2"]),
]
UNSEEN = [
    ("", []),
    ("[run]\nsecrets = ['KEY']", []),
    ("[distributed]\nnodes = [1]", []),
    ("[distributed]\nnodes = {}", []),
    ("distributed = 7", []),
    ("no toml", []),
    ("[distributed]\nnodes = ['a']\n[[cluster.nodes]]\nname = 'a'", []),
    ("[distributed]\nnodes = ['a']", ["distributed={nodes=['b']}"]),
    ("[distributed]\nnodes = ['a']", ["'distributed'.nodes=['b']"]),
    ("[distributed]\nnodes = ['a']", ["distributed.'nodes'=['b']"]),
    ("[distributed]\nnodes = ['a']", ["distributed.nodes=['b'"]),
    ("[distributed]\nnodes = ['a']", ["cluster.nodes=[]"]),
    ("extends = 7\n[run]\nscript = 't.py'", []),
    ("extends = 'run.toml'", []),
    ("extends = 'none.toml'", []),
    ("extends = '~nobody-of-that-name/run.toml'", []),
]


def written(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("text", "overrides"), SEEN)
def test_what_is_seen_is_what_the_checked_config_says(
    tmp_path: Path, text: str, overrides: list[str]
) -> None:
    """Values in files and on the command line, the last of which counts."""
    (tmp_path / "train.py").touch()
    path = written(tmp_path, text)
    overrides = [*overrides, "run.script=train.py"]
    config = load_config(path, overrides).config
    nodes = config.distributed.nodes
    assert foreseen(path, overrides) == Foreseen(
        nodes if isinstance(nodes, str) else tuple(nodes), frozenset(config.run.secrets)
    )


@pytest.mark.parametrize(("text", "overrides"), UNSEEN)
def test_the_rest_is_left_to_who_checks(tmp_path: Path, text: str, overrides: list[str]) -> None:
    """What is wrong, names no machine, or takes a second look."""
    assert foreseen(written(tmp_path, text), overrides) is None


def test_a_chain_of_files_is_followed(tmp_path: Path) -> None:
    """The nearest says it; paths are relative to the file that extends."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "all.toml").write_text(
        "[distributed]\nnodes = ['x']\nnproc = 2\n[run]\nsecrets = ['KEY']"
    )
    (tmp_path / "base" / "some.toml").write_text("extends = 'all.toml'\n[distributed]\nnodes = ['y']")
    path = written(tmp_path, "extends = 'base/some.toml'\n[run]\nscript = 't.py'")
    assert foreseen(path, []) == Foreseen(("y",), frozenset({"KEY"}))
    assert foreseen(path, ["run.secrets=['NEW']"]) == Foreseen(("y",), frozenset({"NEW"}))
    with pytest.raises(ConfigError):
        load_config(tmp_path / "gone.toml")
    assert foreseen(str(tmp_path / "gone.toml"), []) is None
    assert foreseen(str(tmp_path), []) is None
    assert foreseen(None, ['distributed.nodes=["z"]']) == Foreseen(("z",), frozenset())


def test_it_costs_the_standard_library_alone() -> None:
    """It comes before the import of what checks."""
    code = (
        "import sys, torchdeck.config.foreseen\n"
        "sys.exit(bool({'pydantic', 'tomlkit', 'torchdeck.config.schema'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
