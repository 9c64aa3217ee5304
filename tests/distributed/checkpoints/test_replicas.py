"""Copies of what a node saves on other nodes: real ranks, each node with a folder of its own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ranks.ranked_scenario import scenario
from support.values.checkpoint_files import manifest_of
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, Manifest, read_manifest
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.distributed.checkpoints.checkpoint_saving import copyings
from torchdeck.distributed.checkpoints.parts import Disks

A, B = "node 0 (a)", "node 1 (b)"
DIGEST = "0" * 64


@pytest.mark.processes
@pytest.mark.parametrize("lost", [("0",), pytest.param(("0", "1", "2"), marks=pytest.mark.soak)])
def test_a_lost_node_takes_no_checkpoint_along(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """A new node in its place continues bit-exactly, and so do fewer; a damaged file is taken from its
    copy.
    """
    outcome = scenario(tmp_path, "replicas.lost_nodes", *lost)
    for node, names in enumerate(outcome["listed"]):
        shards = {f"__{rank}_0.distcp" for rank in (node, (node - 1) % 3)}
        assert shards <= set(names), names
        assert not {f"__{(node + 1) % 3}_0.distcp"} & set(names), names
    assert outcome["sound"] == [["step_00000002"]] * 3
    weights = outcome["saved"][0][0]
    assert outcome["replaced"] == [outcome["saved"]] * len(lost)
    assert outcome["fewer"] == [[[weights]] * 2] * len(lost)
    assert outcome["from_copy"] == outcome["saved"]
    assert len(set(outcome["gone"])) == 1
    assert "is on no node of this run" in outcome["gone"][0]


@given(st.integers(1, 9), st.integers(0, 10), st.integers(1, 3))
def test_every_disk_has_as_many_copies_elsewhere(count: int, replicas: int, each: int) -> None:
    """So many, or one on every other disk; and as much comes to each disk as goes."""
    disks = Disks(tuple(rank - rank % each for rank in range(count * each)))
    found = copyings(disks, replicas)
    expected = min(replicas, count - 1)
    for leader in set(disks.leaders):
        keepers = {pair.receiver for pair in found if pair.sender == leader}
        assert len(keepers) == expected
        assert leader not in keepers
        assert len([pair for pair in found if pair.receiver == leader]) == expected
    assert len(found) == len(set(found))


def _twice(step: int, node: str) -> Manifest:
    files = {"a": FileEntry(1, DIGEST, A, (B,)), "b": FileEntry(1, DIGEST, B, (A,))}
    made = manifest_of(step, files)
    return Manifest(**{**made.__dict__, "version": 3, "node": node})


def test_a_manifest_names_the_copies(tmp_path: Path) -> None:
    """They are among the files beside it, so that they are checked, and deleted, like its own."""
    made = _twice(3, A)
    (tmp_path / "manifest.json").write_bytes(made.render())
    read = read_manifest(tmp_path)
    assert read == made
    assert set(read.files_here) == {"a", "b"}
    assert (read.parts, read.parts_here, read.has_copies) == ((A, B), (A, B), True)
    alone = Manifest(**{**made.__dict__, "files": {**made.files, "b": FileEntry(1, DIGEST, B)}})
    assert (set(alone.files_here), alone.parts_here) == ({"a"}, (A,))


@pytest.mark.parametrize("node", [A, B])
def test_what_is_confirmed_late_is_the_nodes_own(tmp_path: Path, node: str) -> None:
    """Both nodes have all files: the mark says whose part it is, as it would after a kill."""
    directory = CheckpointDirectory(tmp_path)
    directory.open("test-run")
    temporary = tmp_path / ".tmp-step_00000003-1"
    directory.make_temporary(temporary, node)
    for name in ("a", "b"):
        (temporary / name).write_bytes(b"x")
    directory.place(temporary, "step_00000003")
    directory.close()
    again = CheckpointDirectory(tmp_path)
    again.open("test-run", elsewhere={"step_00000003": _twice(3, A)})
    assert read_manifest(tmp_path / "step_00000003").node == node
    again.close()
    with pytest.raises(CheckpointError):
        read_manifest(temporary)
