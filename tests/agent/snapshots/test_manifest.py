"""The list of what a copy consists of."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.snapshots.manifest import Blob, Entry, Manifest, ManifestError

HASH = "ab" * 32
FILE = ["a", HASH, 3]


def written(*entries: object, version: object = 1) -> bytes:
    return json.dumps({"version": version, "entries": list(entries)}).encode()


def test_entries_are_files_executables_and_links() -> None:
    read = Manifest.from_bytes(written(["b/run.sh", f"{HASH} x", 9], ["l", "-> b/run.sh", 0], FILE))
    assert [entry.name for entry in read.entries] == ["a", "b/run.sh", "l"]
    assert read.entries[0].blob == Blob(HASH, 3, executable=False)
    assert read.entries[1].blob.key == f"{HASH}.x"
    assert read.entries[2].target == "b/run.sh"
    assert (read.size, set(read.blobs())) == (12, {HASH, f"{HASH}.x"})


@given(st.permutations([Entry("a", HASH, 1), Entry("b", HASH, 1), Entry("c/d", "-> a", 0)]))
def test_the_hash_is_of_the_tree_and_not_of_an_order(entries: list[Entry]) -> None:
    manifest = Manifest.of(entries)
    assert manifest.tree_hash == Manifest.of(reversed(entries)).tree_hash
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    other = [*entries[:-1], entries[-1]._replace(name="z")]
    assert Manifest.of(other).tree_hash != manifest.tree_hash


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        written(FILE, version=2),
        written(FILE, version="1"),
        written(FILE, FILE),
        written(FILE, ["a/b", HASH, 1]),
        written(["a/b", HASH, 1], ["a", "-> /etc", 0]),
        written(["../a", HASH, 1]),
        written(["/a", HASH, 1]),
        written(["a", HASH[:-1], 1]),
        written(["a", f"{HASH} y", 1]),
        written(["a", HASH, -1]),
        written(["a", HASH, 1.0]),
        written(["a", HASH, True]),
        written(["a", "-> ", 0]),
        written(["a", "-> x", 1]),
        written(["a", HASH]),
        written("a"),
        json.dumps({"version": 1}).encode(),
    ],
)
def test_what_is_no_list_or_leads_out_is_refused(data: bytes) -> None:
    """A file below what is a link would be written where the link leads."""
    with pytest.raises(ManifestError):
        Manifest.from_bytes(data)
