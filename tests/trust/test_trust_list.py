"""What may run: folders and files that the user trusts, as they were then."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from torchdeck.trust.trust_list import NodeScript, TrustError, TrustList
from torchdeck.trust.trusted_entry import MOST_CONTENTS, Seen, Trusted


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def trusted(home: Path) -> TrustList:
    return TrustList(home)


def is_trusted(trusted: TrustList, path: Path) -> bool:
    return trusted.standing(path).trusted


def test_nothing_is_trusted_at_first(trusted: TrustList, tmp_path: Path) -> None:
    """Code from anywhere is not run unasked."""
    assert not is_trusted(trusted, tmp_path)
    assert trusted.entries() == []


def test_a_folder_covers_what_is_below_it(trusted: TrustList, tmp_path: Path) -> None:
    """Its subfolders are trusted, its siblings and its parent are not."""
    for name in ("a", "a/b", "ab"):
        (tmp_path / name).mkdir()
    trusted.add(tmp_path / "a")
    assert is_trusted(trusted, tmp_path / "a")
    assert is_trusted(trusted, tmp_path / "a/b")
    assert not is_trusted(trusted, tmp_path / "ab")
    assert not is_trusted(trusted, tmp_path)
    assert not is_trusted(trusted, tmp_path / "a/none")


def test_links_are_followed(trusted: TrustList, tmp_path: Path) -> None:
    """A link into a trusted folder is trusted; a link inside it that leads out is not."""
    (tmp_path / "a").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a/escape").symlink_to(tmp_path / "out")
    trusted.add(tmp_path / "link")
    assert is_trusted(trusted, tmp_path / "a")
    assert not is_trusted(trusted, tmp_path / "a/escape")
    assert [entry.path for entry in trusted.entries()] == [str(tmp_path / "a")]


def test_trust_adds_up_and_is_taken_back(trusted: TrustList, home: Path, tmp_path: Path) -> None:
    """One more folder does not take the others away, and saying it twice changes nothing."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o755)
        trusted.add(tmp_path / name)
    before = (home / "trusted.json").read_bytes()
    trusted.add(tmp_path / "a")
    assert (home / "trusted.json").read_bytes() == before
    assert trusted.entries() == [Trusted(str(tmp_path / name), Seen(os.geteuid(), 0o755)) for name in "ab"]
    assert trusted.remove(tmp_path / "a")
    assert not trusted.remove(tmp_path / "a")
    assert not is_trusted(trusted, tmp_path / "a")
    (tmp_path / "b").rmdir()
    assert trusted.remove(tmp_path / "b"), "though it is gone"
    assert trusted.entries() == []


def test_a_file_is_trusted_by_its_content(trusted: TrustList, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("one")
    trusted.add(file)
    assert is_trusted(trusted, file)
    file.write_text("two")
    assert trusted.standing(file).changed == "its content has changed"
    file.write_text("one")
    assert is_trusted(trusted, file)


def test_what_has_another_mode_or_owner_is_asked_for_again(trusted: TrustList, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir(mode=0o755)
    trusted.add(folder)
    (folder / "new.py").write_text("its content may change")
    assert is_trusted(trusted, folder)
    folder.chmod(0o750)
    assert trusted.standing(folder) == (False, None, "its mode has changed (755, now 750)")
    (entry,) = trusted.entries()
    assert str(entry.state()) == "asked for again: its mode has changed (755, now 750)"
    trusted.add(folder)
    assert is_trusted(trusted, folder)


def test_code_in_a_folder_is_edited_freely_until_its_owner_or_mode_is_another(
    trusted: TrustList, tmp_path: Path
) -> None:
    """Of what lies right in the folder: it is asked for again if it was replaced, and not only written."""
    folder = tmp_path / "a"
    folder.mkdir(mode=0o755)
    file = folder / "model.py"
    file.write_text("one")
    file.chmod(0o644)
    trusted.add(folder)
    file.write_text("two")
    assert trusted.standing(folder, file).trusted
    file.chmod(0o755)
    said = "model.py has changed, and so has its owner or mode"
    assert trusted.standing(folder, file) == (False, None, said)
    assert trusted.standing(folder, folder / "new.py").trusted
    file.write_text("one")
    assert trusted.standing(folder, file).trusted, "it is what was trusted"
    file.write_text("three")
    trusted.add(folder)
    assert trusted.standing(folder, file).trusted


def test_of_many_files_owner_and_mode_count_of_the_last_ones(trusted: TrustList, tmp_path: Path) -> None:
    """Reading them all would take long: their content is not known, so that it is not compared."""
    folder = tmp_path / "a"
    folder.mkdir(mode=0o755)
    for number in range(MOST_CONTENTS + 9):
        (folder / f"{number:04}.py").touch(mode=0o644)
    last = folder / f"{MOST_CONTENTS + 8:04}.py"
    trusted.add(folder)
    last.write_text("two")
    assert trusted.standing(folder, last).trusted
    last.chmod(0o755)
    assert trusted.standing(folder, last) == (False, None, f"{last.name} has another owner or mode")


def test_what_others_can_write_is_refused_with_what_helps(trusted: TrustList, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    trusted.add(folder)
    folder.chmod(0o777)
    never = trusted.standing(folder).never
    assert never == (f"everyone can write {folder}", f"`chmod o-w {folder}`")
    assert str(trusted.entries()[0].state()) == f"does not count: everyone can write {folder}"
    with pytest.raises(TrustError, match=r"cannot be trusted, as everyone can write .*chmod o-w"):
        trusted.add(folder)


def test_a_list_of_the_first_version_is_read_and_completed(
    trusted: TrustList, home: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o755)
    gone = tmp_path / "gone"
    (home / "trusted.json").write_text(
        json.dumps({"v": 1, "folders": [str(tmp_path / "a"), str(gone), 3, "."]})
    )
    assert is_trusted(trusted, tmp_path / "a")
    trusted.add(tmp_path / "b")
    assert json.loads((home / "trusted.json").read_text())["v"] == 2
    assert is_trusted(trusted, tmp_path / "a")
    (tmp_path / "a").chmod(0o700)
    assert trusted.standing(tmp_path / "a").changed
    assert [entry.path for entry in trusted.entries()] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
        str(gone),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"v": 1, "folders": "x"}',
        b'{"folders": ["/"]}',
        b'{"v": 1, "folders": [3, "."]}',
        b'{"v": 2, "trusted": {"path": "/"}}',
        b'{"v": 2, "trusted": ["/", {"path": "/"}, {"path": "/", "seen": "777"}]}',
        b'{"v": 2, "trusted": [{"path": 3, "seen": null}, {"path": "x", "seen": null}]}',
        b'{"v": 2, "trusted": [{"path": "/", "seen": [true, 493, ""]}, {"path": "/", "seen": [0, 493]}]}',
        b'{"v": 2, "trusted": [{"path": "/", "seen": [0, 493, 1], "files": []}]}',
        b'{"v": true, "trusted": []}',
    ],
)
def test_a_damaged_list_trusts_nobody(trusted: TrustList, home: Path, tmp_path: Path, content: bytes) -> None:
    """What cannot be read trusts nothing, and never everything."""
    (home / "trusted.json").write_bytes(content)
    assert not is_trusted(trusted, tmp_path)


def test_a_newer_list_is_refused(trusted: TrustList, home: Path, tmp_path: Path) -> None:
    """A later Torchdeck may mean something else by it."""
    (home / "trusted.json").write_text(json.dumps({"v": 3, "folders": ["/"]}))
    with pytest.raises(TrustError, match="newer Torchdeck"):
        trusted.standing(tmp_path)


def test_a_list_that_others_can_write_does_not_count(trusted: TrustList, home: Path, tmp_path: Path) -> None:
    trusted.add(tmp_path)
    (home / "trusted.json").chmod(0o666)
    with pytest.raises(TrustError, match="everyone can write"):
        trusted.standing(tmp_path)


def test_only_what_is_there_can_be_trusted(trusted: TrustList, tmp_path: Path) -> None:
    """Nothing at all, and a pipe, are refused with a sentence; nothing waits for the pipe's other end."""
    with pytest.raises(TrustError, match="name what is there"):
        trusted.add(tmp_path / "absent")
    odd = tmp_path / "odd\udcff"
    odd.mkdir()
    with pytest.raises(TrustError, match="not UTF-8"):
        trusted.add(odd)
    (tmp_path / "run\udcff.py").touch()
    trusted.add(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TrustError, match="named pipe"):
        trusted.add(tmp_path / "pipe")


def _add(home: Path, folders: list[Path]) -> None:
    for folder in folders:
        TrustList(home).add(folder)


@pytest.mark.processes
def test_processes_that_trust_at_once_lose_nothing(trusted: TrustList, home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / f"f{number}" for number in range(12)]
    for folder in folders:
        folder.mkdir()
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(home, folders[part::3])) for part in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert {entry.path for entry in trusted.entries()} == {str(folder) for folder in folders}


def test_an_activation_script_of_a_node_keeps_the_content_it_was_trusted_with(
    trusted: TrustList, home: Path, tmp_path: Path
) -> None:
    """It is no file of this machine, and stays through changes of the rest."""
    script = NodeScript("gpu1", "/opt/on.sh")
    trusted.add_node_script(script, "a" * 64)
    trusted.add_node_script(NodeScript("gpu1", "~/on.sh"), "b" * 64)
    trusted.add(tmp_path)
    assert TrustList(home).node_scripts() == {script: "a" * 64, NodeScript("gpu1", "~/on.sh"): "b" * 64}
    assert [entry.path for entry in trusted.entries()] == [str(tmp_path)]
    trusted.remove(tmp_path)
    assert trusted.node_scripts()[script] == "a" * 64


def test_a_removed_activation_script_does_not_pass_as_a_new_one(trusted: TrustList) -> None:
    script = NodeScript("gpu1", "/opt/on.sh")
    trusted.add_node_script(script, "a" * 64)
    assert trusted.remove(Path(str(script)))
    assert trusted.node_scripts() == {script: ""}
    assert not trusted.remove(Path(str(script)))


@pytest.mark.parametrize("text", ["", "gpu1", "/opt/on.sh", "gpu1:on.sh", ":/opt/on.sh", "a/b:/on.sh", "g:~"])
def test_what_is_no_script_of_a_node(text: str) -> None:
    assert NodeScript.from_text(text) is None
