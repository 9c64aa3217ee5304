"""`torchdeck trust`."""

import json
import os
from pathlib import Path

import pytest

from torchdeck.cli.main import main
from torchdeck.trust.trust_list import NodeScript, TrustList


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with folder `a` and file `f`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "f").touch(mode=0o644)
    return tmp_path


def test_what_is_trusted_is_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "list"]) == 0
    assert "nothing is trusted; `torchdeck trust add PATH`" in capsys.readouterr().out
    assert main(["trust", "add", "a", str(folder / "f")]) == 0
    assert capsys.readouterr().out == f"trusted {folder / 'a'}\ntrusted {folder / 'f'}\n"
    (folder / "f").write_text("more")
    assert main(["trust", "list"]) == 0
    said = f"{folder / 'a'}\n{folder / 'f'}   (asked for again: its content has changed)\n"
    assert capsys.readouterr().out == said


def test_json_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["trust", "add", "a", "f"])
    (folder / "a").chmod(0o777)
    capsys.readouterr()
    assert main(["trust", "list", "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["trusted"]
    assert one == {
        "path": str(folder / "a"),
        "kind": "folder",
        "owner": os.geteuid(),
        "mode": "0755",
        "state": "does not count",
        "why": f"everyone can write {folder / 'a'}",
    }
    assert (two["kind"], two["state"], two["why"]) == ("file", "trusted", "")


def test_activation_scripts_of_nodes_are_listed(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torchdeck_home.mkdir(mode=0o700, exist_ok=True)
    TrustList(torchdeck_home).add_node_script(NodeScript("gpu1", "~/on.sh"), "0" * 64)
    assert main(["trust", "list"]) == 0
    assert capsys.readouterr().out == "gpu1:~/on.sh\n"
    assert main(["trust", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["node_scripts"] == ["gpu1:~/on.sh"]
    assert main(["trust", "remove", "gpu1:~/on.sh"]) == 0
    assert main(["trust", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["node_scripts"] == []


def test_it_is_taken_back(folder: Path, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["trust", "add", "a"])
    assert main(["trust", "remove", "a"]) == 0
    assert not TrustList(torchdeck_home).standing(folder / "a").trusted
    assert main(["trust", "remove", "a"]) == 2
    assert "a is not in the list; `torchdeck trust list` shows what is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "said"), [("none", "name what is there"), ("w", "everyone can write"), ("/dev/null", "it is a")]
)
def test_what_cannot_be_trusted_is_said(
    path: str, said: str, folder: Path, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "w").mkdir()
    (folder / "w").chmod(0o777)
    assert main(["trust", "add", path]) == 3
    assert said in capsys.readouterr().err
    assert not (torchdeck_home / "trusted.json").exists()
