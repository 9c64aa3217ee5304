"""Files of a run's directory on a node: listed and fetched, here and by SSH."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.values.run_homes import add_run, run_id
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.nodes import run_files
from torchdeck.use_cases.nodes.run_files import fetch_files, list_files
from torchdeck.use_cases.ui import QuietUi

CONTENT = os.urandom(3 << 20)


def filled(root: Path) -> None:
    (root / "samples" / "deep").mkdir(parents=True)
    (root / "samples" / "deep" / "a\n'$(id)").write_bytes(CONTENT)
    (root / "samples" / "b.txt").write_text("b")
    (root / "samples" / "link").symlink_to("/etc/passwd")


class StoppedError(Exception):
    """Stands in for the user's Cancel."""


class CancellingUi(QuietUi):
    def check(self) -> None:
        raise StoppedError


@pytest.mark.processes
def test_files_of_this_machine_are_listed_and_fetched(tmp_path: Path) -> None:
    layout = add_run(tmp_path / "home", 1)
    filled(layout.root)
    tree = list_files(layout, None, QuietUi())
    assert [entry.name for entry in tree.entries("samples")] == ["deep", "b.txt"]
    told: list[tuple[int, int]] = []
    to = tmp_path / "to"
    found = fetch_files(
        layout, "localhost", ["samples"], to, QuietUi(), lambda _, done, total: told.append((done, total))
    )
    assert (found.folder, found.files, found.problems) == (to / run_id(1) / "localhost", 2, ())
    assert (found.folder / "samples" / "deep" / "a\n'$(id)").read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT) + 1, len(CONTENT) + 1)
    assert not (found.folder / "samples" / "link").exists()
    for node in ("gone", "../x"):
        with pytest.raises(Refusal, match="has no node"):
            list_files(layout, node, QuietUi())


@pytest.mark.processes
def test_a_fetch_can_be_cancelled_and_follows_no_link(tmp_path: Path) -> None:
    layout = add_run(tmp_path / "home", 1)
    filled(layout.root)
    to = tmp_path / "to"
    with pytest.raises(StoppedError):
        fetch_files(layout, None, ["samples"], to, CancellingUi())
    assert not (to / run_id(1) / "localhost" / "samples" / "b.txt").exists()
    outside = tmp_path / "outside"
    outside.mkdir()
    other = tmp_path / "other"
    (other / run_id(1) / "localhost").mkdir(parents=True)
    (other / run_id(1) / "localhost" / "samples").symlink_to(outside)
    found = fetch_files(layout, None, ["samples/b.txt"], other, QuietUi())
    assert "is a link to somewhere else" in found.problems[0]
    assert not any(outside.iterdir())


@pytest.mark.processes
def test_a_file_that_cannot_be_written_here_is_a_problem_unless_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are fetched."""
    layout = add_run(tmp_path / "home", 1)
    for folder in ("a", "b"):
        (layout.root / folder).mkdir()
        (layout.root / folder / "x").write_text("x")
    to = tmp_path / "to"
    (to / run_id(1) / "localhost").mkdir(parents=True)
    (to / run_id(1) / "localhost" / "a").write_text("a file")
    found = fetch_files(layout, None, ["a", "b"], to, QuietUi())
    assert (found.files, found.problems) == (1, ("a/x cannot be written: File exists",))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_files, "fetch_checked", full)
    with pytest.raises(Refusal, match="b/x cannot be written: No space left on device"):
        fetch_files(layout, None, ["b"], to, QuietUi())


def test_files_of_a_node_are_fetched_by_ssh(
    hosts: Callable[..., TestHosts],
    torchdeck_home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = hosts(1)
    (torchdeck_home / "nodes.toml").write_text(made.nodes_toml())
    layout = add_run(torchdeck_home, 1)
    layout.plan.write_text(json.dumps({"nodes": [{"name": "node1"}]}))
    there = RunLayout(made.home(1) / ".local" / "share" / "torchdeck" / "runs" / run_id(1))
    filled(there.root)
    assert main(["runs", "files", run_id(1), "samples", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["entries"]
    assert [(each["path"], each["kind"], each["bytes"]) for each in listed] == [
        ("samples/deep", "folder", len(CONTENT)),
        ("samples/b.txt", "file", 1),
    ]
    assert main(["runs", "files", run_id(1), "samples", "--to", str(tmp_path)]) == 0
    assert "2 files in " in capsys.readouterr().out
    fetched = tmp_path / run_id(1) / "node1" / "samples"
    assert (fetched / "deep" / "a\n'$(id)").read_bytes() == CONTENT
    assert main(["runs", "files", run_id(1), "samples/deep"]) == 0
    assert capsys.readouterr().out.endswith("  samples/deep/a '$(id)\n"), "on one line"
    assert main(["runs", "files", run_id(1), "gone", "--to", str(tmp_path)]) == 3
