"""Files of a node as folders; names from the node may be hostile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.probe.remote_files import RemoteFile
from torchdeck.runs.folders import file_tree
from torchdeck.runs.folders.file_tree import FileEntry, FileTree

FILES = [
    RemoteFile("b.txt", 5, 30),
    RemoteFile("a/x/1", 10, 20),
    RemoteFile("a/x/2", 20, 40),
    RemoteFile("a/y", 1, 10),
    RemoteFile("ab", 7, 1),
]


def test_folders_come_first_with_what_is_below_them() -> None:
    tree = FileTree(FILES)
    assert tree.entries() == (
        FileEntry("a", is_folder=True, size=31, modified=40),
        FileEntry("ab", is_folder=False, size=7, modified=1),
        FileEntry("b.txt", is_folder=False, size=5, modified=30),
    )
    assert [(entry.path, entry.name) for entry in tree.entries("a")] == [("a/x", "x"), ("a/y", "y")]
    assert tree.entries("gone") == ()
    assert [file.name for file in tree.files(["a/x", "a"])] == ["a/x/1", "a/x/2", "a/y"]
    assert len(tree.files([""])) == 5
    assert tree.at("a") == tree.entries("a")
    assert tree.at("ab") == tree.entries()[1:2]
    for call in (lambda: tree.files(["a/z"]), lambda: tree.at("a/z")):
        with pytest.raises(Refusal, match="has no a/z"):
            call()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/", "./a", "a\0b"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="is not the name of a file below a folder"):
        FileTree([RemoteFile(name, 1, 1)])


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("x/a", "x/a/b/c")])
def test_a_file_with_the_name_of_a_folder_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(Refusal, match="a file with the name of its folder"):
        FileTree(RemoteFile(name, 1, 1) for name in names)


def test_names_of_a_hostile_node_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a name is an entry."""
    deep = "/".join("a" * file_tree.DEEPEST)
    assert len(FileTree([RemoteFile(deep, 1, 1)]).files([""])) == 1
    with pytest.raises(Refusal, match="below more than 63 folders"):
        FileTree([RemoteFile(f"{deep}/a", 1, 1)])
    monkeypatch.setattr(file_tree, "MOST", 180)
    names = [f"{number}/{deep[:-4]}" for number in range(3)]
    with pytest.raises(Refusal, match="more than 180 files and folders"):
        FileTree(RemoteFile(name, 1, 1) for name in names)


@given(st.lists(st.lists(st.sampled_from("ab\n\\~$ "), min_size=1, max_size=3).map("/".join), max_size=8))
def test_every_file_is_in_the_folder_above_it(names: list[str]) -> None:
    try:
        tree = FileTree(RemoteFile(name, 1, 1) for name in names)
    except Refusal:
        return

    def count(folder: str) -> int:
        return sum(count(each.path) if each.is_folder else each.size for each in tree.entries(folder))

    assert count("") == len(set(names)) == sum(entry.size for entry in tree.entries())
