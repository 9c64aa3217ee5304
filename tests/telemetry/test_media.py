"""`torchdeck.log` of images, texts, histograms and tables: what arrives in the files, what is left out."""

import json
import logging
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import torchdeck
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.media_format import (
    FRAME_BYTES,
    HistogramBody,
    MediaError,
    TableBody,
    histogram_of,
    png_size,
    table_of,
    text_of,
)
from torchdeck.metrics.logged_media import LoggedMedia, MediaReader, read_media
from torchdeck.telemetry.media.values import Histogram, Image, Table, Text
from torchdeck.telemetry.run_log import LogFunction, log_of_this_process


def pixels(body: bytes) -> npt.NDArray[np.uint8]:
    """A PNG of ours as an array (height, width, channels)."""
    width, height = png_size(body)
    at, data = 8, b""
    channels = {0: 1, 2: 3, 6: 4}[body[25]]
    while at < len(body):
        (length,), kind = struct.unpack_from(">I", body, at), body[at + 4 : at + 8]
        data += body[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        crc = struct.unpack_from(">I", body, at + 8 + length)[0]
        assert crc == zlib.crc32(body[at + 4 : at + 8 + length])
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


WHOLE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WHOLE, WHOLE),
        (WHOLE[:, :, 0], WHOLE[:, :, :1]),
        (np.asfortranarray(WHOLE), WHOLE),
        (torch.from_numpy(WHOLE).permute(2, 0, 1), WHOLE),
        (torch.from_numpy(WHOLE[:, :, 0]).requires_grad_(False), WHOLE[:, :, :1]),
        (np.array([[0.0, 0.5, 1.0, 2.0, -1.0, np.nan]]), np.array([[[0], [128], [255], [255], [0], [0]]])),
        (torch.tensor([[0.25]], dtype=torch.bfloat16), np.array([[[64]]])),
        (np.array([[True, False]]), np.array([[[255], [0]]])),
        (np.array([[300, -5]]), np.array([[[255], [0]]])),
        (Image(WHOLE).encode(), WHOLE),
    ],
)
def test_images(data: Any, expected: npt.NDArray[Any]) -> None:
    """Arrays with the channels last, tensors with them first; fractions and whole numbers; PNG as it is."""
    assert np.array_equal(pixels(Image(data).encode()), expected)


def test_an_image_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(Image(WHOLE).encode())
    assert np.array_equal(pixels(Image(tmp_path / "a.png").encode()), WHOLE)


@pytest.mark.parametrize(
    "data", [np.zeros((2, 2, 2)), np.zeros(3), np.zeros((0, 3)), np.zeros((2, 2), "U1"), b"GIF89a", object()]
)
def test_what_is_no_image_is_refused(data: Any) -> None:
    with pytest.raises(MediaError):
        Image(data).encode()


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_histograms(kind: Any) -> None:
    """The counts are NumPy's, and values that are not finite are counted apart."""
    values = [0.0, 1.0, 1.0, 4.0, float("nan"), float("inf")]
    found = histogram_of(Histogram(kind(values), bins=4).encode())
    assert found == HistogramBody((0.0, 1.0, 2.0, 3.0, 4.0), (1, 2, 0, 1), 2)
    assert histogram_of(Histogram(kind([3.0] * 5), bins=2).encode()).counts == (0, 5)
    assert sum(histogram_of(Histogram(kind([]), bins=2).encode()).counts) == 0


def test_a_histogram_has_bins() -> None:
    for bins in (0, 513, 1.5):
        with pytest.raises(MediaError, match="1 to 512 bins"):
            Histogram([1.0], bins=bins).encode()  # type: ignore[arg-type]
    with pytest.raises(MediaError, match="too far apart"):
        Histogram([-1.7e308, 1.7e308]).encode()


def test_texts_and_tables() -> None:
    """A long text is cut; cells that are neither text nor number become texts."""
    assert text_of(Text("a ü").encode()) == "a ü"
    long = text_of(Text("ü" * 40_000).encode())
    assert long.endswith("ü…")
    assert len(long.encode()) <= 65_536
    rows: list[list[object]] = [
        [1, 0.5, None],
        [True, np.float32(0.5), "x" * 2000],
        [float("nan"), torch.tensor(3), [1]],
    ]
    assert table_of(Table(["a", "b", "c"], rows).encode()) == TableBody(
        ("a", "b", "c"), ((1, 0.5, None), (True, 0.5, "x" * 999 + "…"), ("nan", 3, "[1]"))
    )
    with pytest.raises(MediaError, match="another length"):
        Table(["a"], [[1, 2]]).encode()


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path / "runs" / "one")


def logging_of(layout: RunLayout, attempt: int = 1, rank: int = 0) -> LogFunction:
    """`torchdeck.log` of a rank."""
    environment = {
        "TORCHDECK_RUN_DIR": str(layout.root),
        "TORCHDECK_RUN_ID": "one",
        "TORCHDECK_ATTEMPT": str(attempt),
        "RANK": str(rank),
    }
    return log_of_this_process(environment)


def steps(listed: Any, name: str, rank: int = 0) -> list[int]:
    return [each.step for each in listed[name, rank]]


def test_what_is_logged_is_listed_and_read(layout: RunLayout) -> None:
    """Next to numbers, by the step of the call; without one, by the newest step."""
    log = logging_of(layout)
    log(
        {"loss": 0.5, "picture": torchdeck.Image(WHOLE, caption="three"), "said": torchdeck.Text("a")}, step=7
    )
    log({"said": torchdeck.Text("b")})
    log({"weights": torchdeck.Histogram([1.0, 2.0], bins=2), "errors": torchdeck.Table(["x"], [[1]])}, step=9)
    reader = MediaReader(layout)
    listed = reader.refresh()
    assert {name: steps(listed, name) for name, _ in listed} == {
        "errors": [9], "picture": [7], "said": [7], "weights": [9],
    }  # fmt: skip
    picture, said = listed["picture", 0][0], listed["said", 0][0]
    assert picture.record.head.caption == "three"
    content = read_media(picture)
    assert isinstance(content, bytes)
    assert np.array_equal(pixels(content), WHOLE)
    assert read_media(said) == "b"  # of the same step, the later one
    assert reader.refresh() is listed
    log({"said": torchdeck.Text("c")}, step=12)
    assert steps(reader.refresh(), "said") == [7, 12]


def test_what_cannot_be_logged_is_reported_once_and_the_rest_kept(
    layout: RunLayout, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging_of(layout)
    with caplog.at_level(logging.WARNING, logger="torchdeck"):
        for step in (1, 2):
            log({"picture": torchdeck.Image("/nowhere.png"), "said": torchdeck.Text("a"), "loss": 1.0}, step)
    assert [record.message for record in caplog.records if "picture" in record.message] == [
        caplog.records[0].message
    ]
    assert steps(MediaReader(layout).refresh(), "said") == [1, 2]
    assert list(layout.attempt(1).rank(0).metrics.iterdir())


def test_a_later_attempt_repeats_what_came_after_its_start(layout: RunLayout) -> None:
    """Values of the attempt before count up to there; ranks have their own."""
    for attempt, logged in ((1, range(1, 9)), (2, range(5, 7))):
        log = logging_of(layout, attempt)
        for step in logged:
            log({"said": Text(f"{attempt}/{step}")}, step=step)
    logging_of(layout, rank=1)({"said": Text("other")}, step=8)
    listed = MediaReader(layout).refresh()
    assert [read_media(each) for each in listed["said", 0]] == ["1/1", "1/2", "1/3", "1/4", "2/5", "2/6"]
    assert steps(listed, "said", 1) == [8]


def files(layout: RunLayout) -> list[Path]:
    return sorted(layout.attempt(1).rank(0).media.iterdir())


def test_a_record_that_is_being_written_waits(layout: RunLayout) -> None:
    """Each prefix of the file lists the records that are whole in it."""
    log = logging_of(layout)
    for step in (1, 2):
        log({"said": Text("text")}, step=step)
    (path,) = files(layout)
    whole, reader = path.read_bytes(), MediaReader(layout)
    counts = []
    for size in range(0, len(whole) + 1, 3):
        path.write_bytes(whole[:size])
        counts.append(len(reader.refresh().get(("said", 0), ())))
    path.write_bytes(whole)
    assert sorted(counts) == counts
    assert steps(reader.refresh(), "said") == [1, 2]
    assert reader.problems == ()


def test_a_damaged_file_is_named_and_shown_up_to_there(layout: RunLayout) -> None:
    log = logging_of(layout)
    for step in (1, 2, 3):
        log({"said": Text("text")}, step=step)
    (path,) = files(layout)
    listed = MediaReader(layout).refresh()["said", 0]
    content = bytearray(path.read_bytes())
    content[listed[1].record.body_at - 1] ^= 1  # in the head
    content[listed[0].record.body_at] ^= 1
    path.write_bytes(content)
    reader = MediaReader(layout)
    found = reader.refresh()["said", 0]
    assert [each.step for each in found] == [1]
    assert reader.problems == (f"{path}: a record in it is damaged",)
    with pytest.raises(MediaError, match="said at step 1 is damaged"):
        read_media(found[0])
    path.write_bytes(b"not one of ours\n")
    foreign = MediaReader(layout)
    assert foreign.refresh() == {}
    assert "its first line is not JSON" in foreign.problems[0]


def test_a_body_of_another_kind_is_refused(layout: RunLayout) -> None:
    log = logging_of(layout)
    log({"said": Text("text")}, step=1)
    (logged,) = MediaReader(layout).refresh()["said", 0]
    record = logged.record
    for kind in ("image", "histogram", "table"):
        head = record.head._replace(kind=kind)
        other = LoggedMedia(logged.path, type(record)(**{**vars(record), "head": head}), 1)
        with pytest.raises(MediaError):
            read_media(other)


FULL = """
import json, os, resource, signal, sys
from torchdeck.telemetry.run_log import log_of_this_process
from torchdeck.telemetry.media.values import Text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = log_of_this_process(os.environ)
log({"said": Text("first")}, step=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
log({"said": Text("x" * 1000)}, step=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log({"said": Text("third")}, step=3)
if os.fork() == 0:
    log({"said": Text("child")}, step=4)
    os._exit(0)
os.wait()
log({"said": Text("last")}, step=5)
"""


@pytest.mark.processes
def test_a_write_that_fails_half_way_and_a_fork_lose_nothing_else(layout: RunLayout) -> None:
    """The file that was cut is left; another one begins, and a child writes its own."""
    environment = {
        **os.environ,
        "TORCHDECK_RUN_DIR": str(layout.root),
        "TORCHDECK_RUN_ID": "one",
        "TORCHDECK_ATTEMPT": "1",
        "RANK": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", FULL], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.count("said: ") == 1
    reader = MediaReader(layout)
    assert [read_media(each) for each in reader.refresh()["said", 0]] == ["first", "third", "child", "last"]
    assert reader.problems == ()
    assert len(files(layout)) == 3
    assert all(path.stat().st_size > FRAME_BYTES for path in files(layout))


def test_outside_a_run_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log_of_this_process({})({"said": torchdeck.Text("a"), "loss": 1.0}, step=1)
    assert list(tmp_path.iterdir()) == []
    assert json.loads(Table(["a"], []).encode()) == {"columns": ["a"], "rows": []}
