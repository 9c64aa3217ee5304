"""Contents kept by hash."""

import errno
import hashlib
import io
import os
import time
from pathlib import Path

import pytest

from torchdeck.agent.snapshots.blobs import ABANDONED, BlobDamagedError, BlobMissingError, BlobStore
from torchdeck.agent.snapshots.manifest import Blob

TEXT = b"what a file holds\n" * 100


def blob_of(data: bytes, *, executable: bool = False) -> Blob:
    return Blob(hashlib.sha256(data).hexdigest(), len(data), executable)


def kept(folder: Path, data: bytes = TEXT) -> tuple[BlobStore, Blob]:
    store, blob = BlobStore(folder), blob_of(data)
    hash_, size, written = store.add(io.BytesIO(data), 1 << 20)
    assert (hash_, size) == (blob.hash, len(data))
    store.keep(blob, written)
    return store, blob


def test_what_is_kept_is_linked_read_only(tmp_path: Path) -> None:
    store, blob = kept(tmp_path)
    assert store.has(blob)
    assert not store.has(blob._replace(executable=True))
    store.link(blob, str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == TEXT
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "a").samefile(store.path(blob))


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    _, size, _ = BlobStore(tmp_path).add(io.BytesIO(bytes(1000)), 10)
    assert size == 10


def test_what_somebody_wrote_into_is_not_used_again(tmp_path: Path) -> None:
    """A run as root can write into its copy, and so into what is kept."""
    store, blob = kept(tmp_path)
    path = store.path(blob)
    path.chmod(0o600)
    path.write_bytes(TEXT.upper())
    assert not store.has(blob)
    assert not path.exists()


def test_what_was_only_touched_is_looked_at_and_kept(tmp_path: Path) -> None:
    store, blob = kept(tmp_path)
    os.utime(store.path(blob))
    assert store.has(blob)
    assert store.has(blob)


def test_what_lay_there_before_the_machine_started_is_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut can leave a file's size and times without its bytes."""
    store, blob = kept(tmp_path)
    times = store.path(blob).stat()
    store.path(blob).chmod(0o600)
    store.path(blob).write_bytes(bytes(len(TEXT)))
    os.utime(store.path(blob), ns=(times.st_atime_ns, times.st_mtime_ns))
    assert store.has(blob)  # nothing shows it while the machine is up
    monkeypatch.setattr(store, "_booted", time.time() + 60)
    assert not store.has(blob)


def test_data_is_kept_as_files_are(tmp_path: Path) -> None:
    store, blob = BlobStore(tmp_path), blob_of(TEXT, executable=True)
    store.put(blob, TEXT)
    assert store.has(blob)
    assert store.path(blob).stat().st_mode & 0o777 == 0o500
    assert list((tmp_path / "incoming").iterdir()) == []


def test_missing_contents_are_named(tmp_path: Path) -> None:
    with pytest.raises(BlobMissingError, match=blob_of(TEXT).hash):
        BlobStore(tmp_path).link(blob_of(TEXT), str(tmp_path / "a"))


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EXDEV])
def test_where_no_link_can_be_made_the_content_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The error is made up: an empty file of 65,000 links takes seconds, and another file system root."""
    store, blob = kept(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(number, "no link")

    monkeypatch.setattr(os, "link", refuse)
    store.link(blob, str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == TEXT
    assert not (tmp_path / "a").samefile(store.path(blob))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o400


def test_only_what_nobody_uses_is_freed(tmp_path: Path) -> None:
    store, used = kept(tmp_path)
    _, unused = kept(tmp_path, b"other")
    store.link(used, str(tmp_path / "a"))
    store.free([used, unused, blob_of(b"never kept")])
    assert (store.has(used), store.has(unused)) == (True, False)
    (tmp_path / "a").unlink()
    store.free([used])
    assert not store.has(used)


def test_what_was_abandoned_is_removed_after_a_day(tmp_path: Path) -> None:
    store, blob = kept(tmp_path)
    other = blob_of(b"arriving")
    with store.incoming(other) as incoming:
        incoming.write(0, b"arr")
    store.tidy()
    assert (store.has(blob), store.arrived(other)) == (True, 3)
    store.tidy(time.time() + ABANDONED + 1)
    assert (store.has(blob), store.arrived(other)) == (False, 0)


def test_a_content_arrives_in_parts_with_cuts_between(tmp_path: Path) -> None:
    store, blob = BlobStore(tmp_path), blob_of(TEXT)
    while (at := store.arrived(blob)) < len(TEXT):
        with BlobStore(tmp_path).incoming(blob) as incoming:
            incoming.write(at, TEXT[at : at + 700])
            incoming.write(at, TEXT[at : at + 500])  # a byte that comes twice is the same byte
    with store.incoming(blob) as incoming:
        incoming.finish()
    assert store.has(blob)
    assert store.arrived(blob) == 0


def test_another_content_than_announced_is_thrown_away(tmp_path: Path) -> None:
    store, blob = BlobStore(tmp_path), blob_of(TEXT)
    with store.incoming(blob) as incoming:
        incoming.write(0, TEXT[:-1] + b"?")
        with pytest.raises(BlobDamagedError, match="another hash"):
            incoming.finish()
    assert (store.has(blob), store.arrived(blob)) == (False, 0)


@pytest.mark.parametrize(("at", "data"), [(1, b"x"), (0, TEXT + b"x")])
def test_gaps_and_too_much_are_refused(tmp_path: Path, at: int, data: bytes) -> None:
    store = BlobStore(tmp_path)
    with store.incoming(blob_of(TEXT)) as incoming, pytest.raises(BlobDamagedError):
        incoming.write(at, data)


def test_two_transfers_of_the_same_do_not_meet(tmp_path: Path) -> None:
    store, blob = BlobStore(tmp_path), blob_of(TEXT)
    with store.incoming(blob) as one, store.incoming(blob) as other:
        one.write(0, TEXT[:5])
        other.write(0, TEXT)
        other.finish()
        one.write(5, TEXT[5:])
        one.finish()
    assert store.has(blob)
    assert list((tmp_path / "incoming").iterdir()) == []
