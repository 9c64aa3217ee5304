"""A run's own copy of the user's code."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.links.code_transfer import captured, code_of, content_below, written
from support.values.machines import config, plan
from torchdeck.agent.snapshots.blobs import BlobStore
from torchdeck.agent.snapshots.folder import read_manifest, store_of
from torchdeck.agent.snapshots.manifest import Blob
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.code.capture import CodeGoneError, capture
from torchdeck.launching.code.secret_contents import secret_in
from torchdeck.runs.folders.deletion import remove

PARTS = st.binary(min_size=1, max_size=4).filter(
    lambda raw: not set(raw) & set(b"\0/") and raw not in (b".", b"..")
)
NAMES = st.lists(PARTS.map(os.fsdecode), min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(NAMES, st.binary(max_size=50), max_size=6)


def new_run(home: Path, name: str = "one") -> RunLayout:
    layout = RunLayout(home / "runs" / name)
    layout.root.mkdir(parents=True)
    return layout


def planned(work: Path, home: Path) -> LaunchPlan:
    return plan(config({"script": str(work / "train.py")}), code=code_of(work, home))


@settings(max_examples=40, deadline=None)
@given(tree=TREES)
def test_every_file_is_in_the_copy_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes]
) -> None:
    """Whatever bytes their names have; a secret, which Hypothesis knows from our sources, is left out."""
    folder = tmp_path_factory.mktemp("tree")
    for name, content in tree.items():
        try:
            written(folder / "work", {name: content})
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    (folder / "work").mkdir(exist_ok=True)
    (folder / "work/train.py").touch()
    expected = {
        name: content
        for name, content in content_below(folder / "work").items()
        if not (isinstance(content, bytes) and secret_in(content))
        and (name == "train.py" or not name.endswith(("~", ".swp")))
    }
    code = captured(folder / "work", folder / "home").code
    copied = {
        name: content for name, content in content_below(code).items() if not (code / name).is_symlink()
    }
    assert copied == expected


def test_a_change_afterwards_changes_nothing(tmp_path: Path) -> None:
    work = written(tmp_path / "work", {"train.py": b"print(1)", "gone.py": b""})
    layout = captured(work, tmp_path / "home")
    (work / "train.py").write_bytes(b"print(2)")
    (work / "gone.py").unlink()
    assert content_below(layout.code) == {"train.py": b"print(1)", "gone.py": b""}
    assert oct((layout.code / "train.py").stat().st_mode)[-3:] == "400"


def test_what_was_really_read_is_what_the_plan_says_from_then_on(tmp_path: Path) -> None:
    """Changed between plan and start, and gone."""
    work, home = written(tmp_path / "work", {"train.py": b"print(1)", "a.log": b"1"}), tmp_path / "home"
    before = planned(work, home)
    (work / "train.py").write_bytes(b"print(22)")
    (work / "a.log").unlink()
    layout = new_run(home)
    after = capture(layout, before, home)
    assert after.code.files == {"train.py": hashlib.sha256(b"print(22)").hexdigest()}
    assert after.code.size == 9
    assert after.fingerprint != before.fingerprint
    assert content_below(layout.code) == {"train.py": b"print(22)"}
    unchanged = planned(work, home)
    assert capture(new_run(home, "two"), unchanged, home) == unchanged


def test_without_what_is_executed_nothing_starts(tmp_path: Path) -> None:
    work, home = written(tmp_path / "work", {"train.py": b"", "a.py": b""}), tmp_path / "home"
    made = planned(work, home)
    (work / "train.py").unlink()
    layout = new_run(home)
    with pytest.raises(CodeGoneError, match=r"train\.py no longer exists"):
        capture(layout, made, home)
    assert list(layout.root.iterdir()) == []


def test_canaries_never_get_into_a_copy_nor_into_the_store(tmp_path: Path) -> None:
    """By name, by content, and what became a secret, or a link to one, after the plan was made."""
    canary = b"CANARY-7f3a"
    key = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary
    token = b"x: 1\n" * 2_000 + b"hf" + b"_" + b"aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0iL3o" + canary
    token, large = token[: -len(canary)] + b"\n" + canary, bytes(3 << 20) + b"\n" + key
    names = [
        ".env",
        ".bash_history",
        "terraform.tfstate",
        "huggingface/token",
        ".env.local",
        "lib/.envrc",
        ".git/config",
        "id_rsa",
        "certs/server.pem",
        ".ssh/config",
        ".netrc",
    ]
    work, home = (
        written(
            tmp_path / "work",
            {"train.py": b"", "later.txt": b"", "later.yaml": b"", "later.bin": b"", "link.txt": b""},
        ),
        tmp_path / "home",
    )
    written(work, {**dict.fromkeys(names, canary), "notes.txt": key, "conf.yaml": token, "dump.bin": large})
    written(tmp_path, {"outside/token": canary})
    (work / "token").symlink_to(tmp_path / "outside/token")
    made = planned(work, home)
    for name, content in {"later.txt": key, "later.yaml": token, "later.bin": large}.items():
        (work / name).write_bytes(content)
    (work / "link.txt").unlink()
    (work / "link.txt").symlink_to(tmp_path / "outside/token")
    layout = new_run(home)
    after = capture(layout, made, home)
    assert set(after.code.files) == {"train.py", "token"}
    held = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert held
    assert not [path for path in held if canary in path.read_bytes()]


def test_runs_share_contents_and_deleting_the_last_frees_them(tmp_path: Path) -> None:
    work, home = written(tmp_path / "work", {"train.py": b"print(1)", "a.py": b"a"}), tmp_path / "home"
    one = captured(work, home)
    (work / "a.py").write_bytes(b"changed")
    two = captured(work, home, "two")
    assert (one.code / "train.py").samefile(two.code / "train.py")
    counts = []
    for layout in (one, two):
        remove(layout.root)
        counts.append(sum(path.is_file() for path in (home / "code/blobs").rglob("*")))
    assert counts == [2, 0]


def test_a_content_that_was_damaged_in_the_store_is_read_again(tmp_path: Path) -> None:
    work, home = written(tmp_path / "work", {"train.py": b"print(1)"}), tmp_path / "home"
    one = captured(work, home)
    manifest = read_manifest(one)
    assert manifest is not None
    (blob,) = manifest.blobs().values()
    path = store_of(home).path(blob)
    path.chmod(0o600)
    path.write_bytes(b"print(0)")
    assert content_below(captured(work, home, "two").code) == {"train.py": b"print(1)"}


def test_a_content_freed_in_the_same_moment_is_kept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of another run may come between the look and the link."""
    work, home = written(tmp_path / "work", {"train.py": b"print(1)"}), tmp_path / "home"
    link = BlobStore.link
    freed: list[Blob] = []

    def freeing(store: BlobStore, blob: Blob, target: str) -> None:
        if not freed:
            freed.append(blob)
            store.free([blob])
        link(store, blob, target)

    monkeypatch.setattr(BlobStore, "link", freeing)
    assert content_below(captured(work, home).code) == {"train.py": b"print(1)"}
    assert freed


def test_a_plan_without_a_copy_makes_none(tmp_path: Path) -> None:
    layout = new_run(tmp_path)
    made = plan(code=CodeTree({"train.py": "ab"}))
    assert capture(layout, made, tmp_path) == made
    assert list(layout.root.iterdir()) == []
