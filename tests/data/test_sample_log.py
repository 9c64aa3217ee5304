"""The record of samples: what was written comes back, and what is not whole is told apart from what is."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Ids, Position
from torchdeck.data.sample_log import SampleLog, SampleLogError, SampleLogHeader, SampleLogWriter

SIZES = (1, 256, 65536, 65537, 1 << 32, (1 << 32) + 1)


def header(size: int = 100) -> SampleLogHeader:
    return SampleLogHeader(size, 1, 2, Position().to_json())


def parts_of(*parts: list[int]) -> list[Ids]:
    return [np.array(part, np.int64) for part in parts]


def write(path: Path, steps: int = 3) -> list[int]:
    """A log of `steps` steps; the file's size after the header and after each record."""
    writer = SampleLogWriter(path, header())
    sizes = [path.stat().st_size]
    for step in range(1, steps + 1):
        writer.write(step, 0, 7.5, parts_of([step, 50], [99]))
        sizes.append(path.stat().st_size)
    writer.close()
    return sizes


def steps_in(path: Path) -> list[int]:
    return [record.step for record in SampleLog(path).records()]


@settings(deadline=None)
@given(data=st.data(), size=st.sampled_from(SIZES))
def test_records_come_back(data: st.DataObject, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Steps, epochs, tokens and every microbatch's ids, at every width, empty microbatches too."""
    ids = st.lists(st.integers(0, size - 1), max_size=5)
    row = st.tuples(
        st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.floats(0, 1e9), st.lists(ids, min_size=1)
    )
    rows = data.draw(st.lists(row, max_size=4))
    path = tmp_path_factory.mktemp("log") / "rank" / "samples.log"
    writer = SampleLogWriter(path, header(size))
    for step, epoch, tokens, parts in rows:
        writer.write(step, epoch, tokens, parts_of(*parts))
    writer.sync()
    writer.close()
    log = SampleLog(path)
    assert log.header == header(size)
    read = [
        (
            item.step,
            item.epoch,
            item.tokens,
            [part.tolist() for part in np.split(item.ids, np.cumsum(item.counts)[:-1])],
        )
        for item in log.records()
    ]
    assert read == rows
    assert log.end == path.stat().st_size


@pytest.mark.parametrize(("size", "width"), list(zip(SIZES, (2, 2, 2, 4, 4, 8), strict=True)))
def test_an_id_is_as_wide_as_the_data_set_needs(size: int, width: int, tmp_path: Path) -> None:
    """2, 4 or 8 bytes; the largest id fits."""
    path = tmp_path / "samples.log"
    writer = SampleLogWriter(path, header(size))
    before = path.stat().st_size
    writer.write(1, 0, 1.0, parts_of([size - 1]))
    writer.close()
    assert path.stat().st_size == before + 40 + 4 + width
    assert [record.ids.tolist() for record in SampleLog(path).records()] == [[size - 1]]


@pytest.mark.parametrize("id_", [-1, 100])
def test_an_id_outside_the_data_set_is_refused(id_: int, tmp_path: Path) -> None:
    """It would be another id in fewer bytes."""
    with pytest.raises(ValueError, match="the data set has 100 samples"):
        SampleLogWriter(tmp_path / "samples.log", header()).write(1, 0, 1.0, parts_of([5, id_]))


def test_every_torn_tail_is_left_out(tmp_path: Path) -> None:
    """Cut anywhere, the whole records before the cut are read, and reading continues when the rest is
    there.
    """
    path = tmp_path / "samples.log"
    sizes = write(path)
    content = path.read_bytes()
    for cut in range(sizes[0], len(content)):
        path.write_bytes(content[:cut])
        log = SampleLog(path)
        whole = [record.step for record in log.records()]
        assert whole == list(range(1, 1 + sum(size <= cut for size in sizes[1:])))
        path.write_bytes(content)
        assert whole + [record.step for record in log.records()] == [1, 2, 3]


def test_zeros_of_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    """A file grown but not written ends where the zeros begin; zeros before something else are damage."""
    path = tmp_path / "samples.log"
    write(path)
    content = path.read_bytes()
    path.write_bytes(content + bytes(4000))
    assert steps_in(path) == [1, 2, 3]
    path.write_bytes(content + bytes(4000) + b"\1")
    with pytest.raises(SampleLogError, match="is damaged at byte"):
        steps_in(path)


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    """Whatever byte of a record is changed, the record is not believed, and those before it are."""
    path = tmp_path / "samples.log"
    sizes = write(path)
    content = bytearray(path.read_bytes())
    for place in range(sizes[1], sizes[2]):
        content[place] ^= 4
        path.write_bytes(content)
        log = SampleLog(path)
        with pytest.raises(SampleLogError, match=f"is damaged at byte {sizes[1]}"):
            list(log.records())
        assert log.end == sizes[1]
        content[place] ^= 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ((b'"v":1', b'"v":2'), "was written by a newer Torchdeck"),
        ((b'"width":2', b'"width":4'), "is not a sample log"),
        ((b"torchdeck samples", b"someone's sample"), "is not a sample log"),
        ((b'"rank":1', b'"rank":2'), "is not a sample log"),
        ((b'"size":100', b'"size":"9"'), "is not a sample log"),
        ((b"{", b"["), "is not a sample log"),
    ],
)
def test_other_files_are_refused(change: tuple[bytes, bytes], sentence: str, tmp_path: Path) -> None:
    """A header that is another format's, a newer one's or cannot be true is one sentence."""
    path = tmp_path / "samples.log"
    write(path)
    path.write_bytes(path.read_bytes().replace(*change, 1))
    with pytest.raises(SampleLogError, match=sentence):
        SampleLog(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """The error names what failed; nothing pretends to be recorded."""
    path = tmp_path / "samples.log"
    writer = SampleLogWriter(path, header())
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._descriptor)
    os.close(full)
    with pytest.raises(OSError, match="No space left") as caught:
        writer.write(1, 0, 1.0, parts_of([1]))
    writer.close()
    assert caught.value.errno == errno.ENOSPC
    assert steps_in(path) == []


def test_a_new_start_of_an_attempt_begins_anew(tmp_path: Path) -> None:
    """None of the steps of the former start count."""
    path = tmp_path / "samples.log"
    write(path)
    write(path, steps=1)
    assert steps_in(path) == [1]
