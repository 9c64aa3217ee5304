"""Files of torch.save, looked at before torch reads them."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.rank_file import read_rank_file
from torchdeck.distributed.checkpoints.files.tensor_archive import Span, check_archive

_FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.complex64]
_OTHERS = [torch.int64, torch.int32, torch.uint8, torch.uint16, torch.uint64, torch.bool]


def _saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def _packed(
    value: object, change: Callable[[bytes], bytes], compression: int = zipfile.ZIP_STORED
) -> io.BytesIO:
    """What torch.save writes, with another pickle, or packed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(_saved(value)) as old, zipfile.ZipFile(packed, "w", compression) as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, change(content) if info.filename.endswith("/data.pkl") else content)
    packed.seek(0)
    return packed


def _same(content: bytes) -> bytes:
    return content


def _replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new)

    return change


@pytest.mark.parametrize(
    "value",
    [
        {str(dtype): torch.zeros(2, 3).to(dtype) for dtype in (*_FLOATS, *_OTHERS)},
        nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4)).state_dict(),
        {
            "model": dict(nn.Linear(3, 2).named_parameters()),
            "step": 3,
            "name": "text",
            "size": torch.Size([1]),
        },
        {"strided": torch.zeros(3, 4).t(), "part": torch.arange(10)[3:7], "empty": torch.zeros(0, 4)},
        torch.tensor(1.5),
    ],
    ids=["dtypes", "state dict", "parameters", "views", "scalar"],
)
def test_what_torch_saves_passes(value: object) -> None:
    """All that weights and ranks' states are made of, also as part of a larger file."""
    file = _saved(value)
    check_archive(file)
    assert file.tell() == 0
    torch.load(file, weights_only=True)
    content = file.getvalue()
    check_archive(Span(io.BytesIO(b"before" + content + b"after"), 6, len(content)))


def _with_entry(name: str) -> io.BytesIO:
    """What torch.save writes, and one entry more."""
    file = _saved(ZEROS)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, bytes(4000))
    file.seek(0)
    return file


def _with_dimensions(content: bytes) -> bytes:
    """Shape and strides are 10,000 numbers of 2,000 bits each, whose product takes for ever."""
    shape, strides = b"K\x00M\xe8\x03\x85", b"K\x01\x85"
    many = b"(" + (b"\x8a\xff" + b"\x7f" * 255) * 10_000 + b"t"
    return _replaced(strides, many)(_replaced(shape, b"K\x00" + many)(content))


ZEROS = torch.zeros(1000)
HOSTILE = {
    "a storage twice, equal but for case": (lambda: _with_entry("archive/DATA/0"), "equal but for case"),
    "a pickle twice, equal but for case": (lambda: _with_entry("Archive/data.PKL"), "equal but for case"),
    "compressed": (lambda: _packed(ZEROS, _same, zipfile.ZIP_DEFLATED), "packed otherwise"),
    "a bytearray of 256 MiB": (
        lambda: _packed(ZEROS, lambda _: b"\x80\x02c__builtin__\nbytearray\nJ\x00\x00\x00\x10\x85R."),
        "asks for __builtin__.bytearray",
    ),
    "10^15 elements in one place": (
        lambda: _saved(torch.zeros(1).expand(10**15)),
        "has 1000000000000000 elements, and fewer are stored",
    ),
    "a storage larger than its entry": (
        lambda: _packed(ZEROS, _replaced(b"M\xe8\x03t", b"J\x00\x00\x00\x10t")),
        "no storage of its size",
    ),
    "a storage that is not there": (
        lambda: _packed(ZEROS, _replaced(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x009")),
        "no storage of its size",
    ),
    "10,000 dimensions": (lambda: _packed(ZEROS, _with_dimensions), "no sensible shape"),
    "sparse": (lambda: _saved(torch.eye(3).to_sparse()), "asks for torch._utils._rebuild_sparse_tensor"),
    "a plain pickle": (lambda: io.BytesIO(pickle.dumps({"a": 1})), "not a file that torch.save"),
    "nothing": (io.BytesIO, "not a file that torch.save"),
    "another zip": (lambda: _without_pickle(), "not a file that torch.save"),
    "an entry twice": (lambda: _doubled(), "packed otherwise"),
}


def _without_pickle() -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("notes", "text")
    return file


def _doubled() -> io.BytesIO:
    file = _packed(ZEROS, _same)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(archive.namelist()[0], b"\x80\x02N.")
    return file


@pytest.mark.parametrize(("make", "said"), HOSTILE.values(), ids=HOSTILE)
def test_what_would_take_more_than_its_bytes_is_refused(
    tmp_path: Path, make: Callable[[], io.BytesIO], said: str
) -> None:
    """By itself, and as a rank's file, before torch reads it."""
    file = make()
    with pytest.raises(ValueError, match=said):
        check_archive(file)
    (tmp_path / "rank_00000.pt").write_bytes(file.getvalue())
    with pytest.raises(CheckpointError, match=said):
        read_rank_file(tmp_path / "rank_00000.pt")


def test_a_rank_file_holds_what_a_rank_keeps(tmp_path: Path) -> None:
    """Tensors by name, and nothing nested that others would have to walk through."""
    values: list[object] = [
        {"rng": [], "buffers": {}},
        {"rng": {}, "buffers": {"a": {"b": 1}}},
        {"rng": {}},
        [1],
    ]
    for value in values:
        torch.save(value, tmp_path / "rank_00000.pt")
        with pytest.raises(CheckpointError, match="is not a rank's part"):
            read_rank_file(tmp_path / "rank_00000.pt")


def test_a_span_ends_where_it_says() -> None:
    """Reading and seeking as in a file; one that would go beyond the file is refused."""
    span = Span(io.BytesIO(b"0123456789"), 2, 5)
    assert (span.read(3), span.read(9), span.read(1)) == (b"234", b"56", b"")
    assert span.seek(-2, io.SEEK_END) == 3
    assert span.read() == b"56"
    with pytest.raises(OSError, match="Invalid argument"):
        span.seek(-6, io.SEEK_END)
    with pytest.raises(ValueError, match="the file has 10 bytes"):
        Span(io.BytesIO(b"0123456789"), 6, 5)
