"""Checkpoints of scripts that are brought from a node: files, folders, and what another file says of them."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.pull.fetching import NotWholeError
from torchdeck.launching.pull.result_files import Sources
from torchdeck.launching.pull.script_checkpoints import chosen, pull_script_checkpoints
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.remote_files import RemoteFiles
from torchdeck.runs.folders.checkpoints import script_checkpoints
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.checkpoints.checkpoint_search import content_of, look_at

pytestmark = pytest.mark.processes


@pytest.fixture
def files() -> Iterator[RemoteFiles]:
    with probe_session_here("a", sys.executable) as probe_session:
        yield RemoteFiles(probe_session, "a")


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path / "runs" / "run-1")


def journal(layout: RunLayout, node: str, path: Path) -> None:
    """The agent of a node noticed the checkpoint."""
    found = look_at(path)
    assert found is not None
    assert not found.incomplete
    layout.node(node).root.mkdir(parents=True, exist_ok=True)
    with JournalWriter(layout.node(node).journal) as writer:
        fields: dict[str, Any] = {"size": content_of(path).size, "kind": found.kind, "changed": found.changed}
        writer.append("checkpoint", step=found.step, path=str(path), **fields)


def archive(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", content)
    return path


def deepspeed(folder: Path, *steps: int) -> Path:
    for step in steps:
        archive(folder / f"global_step{step}" / "mp_rank_00_model_states.pt", str(step))
    (folder / "latest").write_text(f"global_step{max(steps)}")
    return folder / f"global_step{max(steps)}"


def pulled(layout: RunLayout, files: RemoteFiles, which: str = "all") -> list[str]:
    sources = Sources({"a": (files, "/runs/run-1")}, {})
    asked = chosen(script_checkpoints(layout), which)
    told: list[tuple[int, int]] = []
    found = pull_script_checkpoints(
        layout, sources, asked, layout.checkpoints, lambda _what, done, total: told.append((done, total))
    )
    paths = [each.path for each in found]
    assert all(done <= total for done, total in told)
    return paths


def test_a_rewritten_file_is_brought_again(layout: RunLayout, files: RemoteFiles, tmp_path: Path) -> None:
    """The copy of an earlier save is not taken for the newest."""
    path = archive(tmp_path / "node a/out/ckpt.pt", "first")
    journal(layout, "a", path)
    (copy,) = map(Path, pulled(layout, files))
    assert copy.read_bytes() == path.read_bytes()
    assert [(each.node, each.pulled_from) for each in script_checkpoints(layout)] == [("", "a")]
    path.unlink()
    journal(layout, "a", archive(path, "the second, longer one"))
    assert [each.node for each in script_checkpoints(layout)] == ["a"]
    assert pulled(layout, files) == [str(copy)]
    assert copy.read_bytes() == path.read_bytes()


def test_a_copy_of_deepspeeds_is_complete(layout: RunLayout, files: RemoteFiles, tmp_path: Path) -> None:
    """With the file beside it that says so, as the program has it."""
    path = deepspeed(tmp_path / "node a/out", 10, 20)
    journal(layout, "a", path)
    (copy,) = map(Path, pulled(layout, files, "20"))
    found = look_at(copy)
    assert found is not None
    assert (found.kind, found.incomplete) == (CheckpointKind.DEEPSPEED, "")
    deepspeed(tmp_path / "node a/out", 30)
    assert [each.pulled_from for each in script_checkpoints(layout)] == ["a"]


def test_one_that_is_gone_or_not_complete_is_not_put_in_place(
    layout: RunLayout, files: RemoteFiles, tmp_path: Path
) -> None:
    path = deepspeed(tmp_path / "node a/out", 10)
    journal(layout, "a", path)
    (path.parent / "latest").write_text("global_step5")
    with pytest.raises(NotWholeError, match="latest does not name it yet"):
        pulled(layout, files)
    (path / "mp_rank_00_model_states.pt").unlink()
    with pytest.raises(NotWholeError, match="no longer exists on node a"):
        pulled(layout, files)
    assert [each.node for each in script_checkpoints(layout)] == ["a"]


def test_what_nodes_see_on_a_shared_disk_is_one_checkpoint(layout: RunLayout, tmp_path: Path) -> None:
    path = archive(tmp_path / "shared/ckpt.pt", "x")
    journal(layout, "a", path)
    journal(layout, "b", path)
    assert [each.node for each in script_checkpoints(layout)] == ["a"]


def test_the_parts_of_a_name_are_brought_from_all_nodes(layout: RunLayout, tmp_path: Path) -> None:
    for node in ("a", "b"):
        journal(layout, node, archive(tmp_path / node / "checkpoint-2.pt", node * 20_000))
    journal(layout, "a", archive(tmp_path / "a/checkpoint-3.pt", "y" * 20_000))
    found = script_checkpoints(layout)
    assert [each.node for each in chosen(found, "checkpoint-2.pt")] == ["a", "b"]
    assert [each.name for each in chosen(found, "latest")] == ["checkpoint-3.pt"]
    with pytest.raises(NotWholeError, match=r"there are: checkpoint-2\.pt, checkpoint-3\.pt"):
        chosen(found, "5")


def test_a_path_of_a_node_leads_nowhere_else(layout: RunLayout, files: RemoteFiles, tmp_path: Path) -> None:
    """A link here in the way of a copy is not followed."""
    path = archive(tmp_path / "node a/ckpt.pt", "x")
    journal(layout, "a", path)
    layout.checkpoints.mkdir(parents=True)
    (layout.checkpoints / "a").symlink_to(tmp_path)
    with pytest.raises(NotWholeError, match="is a link to somewhere else"):
        pulled(layout, files)
