"""Checksums of metrics: a changed byte is named, and what is whole is never called damaged."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.values.metrics import opened, rank_folder
from torchdeck.agent.link.names import mirrored
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.checksums import SETTLED, block_rows, checksums_path
from torchdeck.contract.metrics.segment_format import decode_header
from torchdeck.runs.metric_damage import MetricDamage
from torchdeck.telemetry.writer import MetricsWriter

ROW = 32
BLOCK = block_rows(ROW)


def written(folder: Path, rows: int) -> Path:
    """A segment of rank 0 with two metrics; closed."""
    with MetricsWriter(rank_folder(folder)) as writer:
        for step in range(rows):
            writer.log({"loss": step / 2, "lr": 0.1}, step=step)
    (path,) = rank_folder(folder).glob("*.metrics")
    return path


def damage(folder: Path) -> tuple[str, ...]:
    return MetricDamage(RunLayout(folder)).look()


def flip(path: Path, row: int, byte: int) -> None:
    content = bytearray(path.read_bytes())
    header = decode_header(bytes(content))
    assert header is not None
    content[header.length + row * header.row_bytes + byte] ^= 4
    path.write_bytes(content)


def test_checksums_are_mirrored_with_their_rows() -> None:
    for place in ("attempts/1/ranks/0/metrics", "nodes/a/system"):
        for suffix in ("metrics", "sums"):
            assert mirrored(f"{place}/log-1-2-ab-0.{suffix}", "a") is not None
        assert mirrored(f"{place}/log.other", "a") is None


@pytest.mark.parametrize("rows", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
def test_whole_segments_are_whole(rows: int, tmp_path: Path) -> None:
    path = written(tmp_path, rows)
    assert checksums_path(path).stat().st_size == 12 * -(-rows // BLOCK)
    assert damage(tmp_path) == ()
    assert len(opened(tmp_path).series("loss", 0).steps) == rows


@pytest.mark.parametrize(
    ("row", "named"), [(0, f"1 to {BLOCK}"), (2 * BLOCK + 3, f"{2 * BLOCK + 1:,} to {2 * BLOCK + 7:,}")]
)
@pytest.mark.parametrize("byte", [0, 13, 20, 31])
def test_a_changed_byte_is_named_with_its_rows(row: int, named: str, byte: int, tmp_path: Path) -> None:
    path = written(tmp_path, 2 * BLOCK + 7)
    flip(path, row, byte)
    (sentence,) = damage(tmp_path)
    assert sentence.startswith(f"rows {named} of attempts/1/ranks/0/metrics/{path.name} do not match")


def test_rows_that_a_page_of_zeros_replaced_are_named_once_nothing_more_can_arrive(tmp_path: Path) -> None:
    """A mirrored file may have holes until the rows have arrived."""
    path = written(tmp_path, BLOCK)
    content = path.read_bytes()
    path.write_bytes(content[: -4 * ROW] + bytes(4 * ROW))
    found = MetricDamage(RunLayout(tmp_path))
    assert found.look() == ()
    path.write_bytes(content)
    assert found.look() == ()
    path.write_bytes(content[: -4 * ROW] + bytes(4 * ROW))
    os.utime(path, (1e9, path.stat().st_mtime - SETTLED - 1))
    assert len(damage(tmp_path)) == 1


@pytest.mark.parametrize("missing", [b"", bytes(4 * ROW)])
def test_rows_that_arrive_late_are_not_damaged(missing: bytes, tmp_path: Path) -> None:
    """While the run continues they are on their way; after its end, until they arrive after all."""
    path = written(tmp_path, BLOCK)
    content, old = path.read_bytes(), path.stat().st_mtime - SETTLED - 1
    path.write_bytes(content[: -4 * ROW] + missing)
    os.utime(path, (1e9, old))
    found = MetricDamage(RunLayout(tmp_path))
    assert found.look(is_over=False) == ()
    assert len(found.look()) == 1
    path.write_bytes(content)
    os.utime(path, (1e9, old + 1))
    assert found.look() == ()


def test_damaged_checksums_are_no_damage_of_the_rows(tmp_path: Path) -> None:
    path = written(tmp_path, BLOCK)
    sums = checksums_path(path)
    for content in (b"", b"x" * 7, bytes(12), os.urandom(12), os.urandom(30)):
        sums.write_bytes(content)
        assert damage(tmp_path) == ()
    sums.unlink()
    assert damage(tmp_path) == ()


@pytest.mark.processes
def test_a_writer_that_is_killed_leaves_checksums_of_whole_blocks(tmp_path: Path) -> None:
    """The rows after them count without one."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom torchdeck.telemetry.writer import MetricsWriter\n"
        "writer = MetricsWriter(Path(sys.argv[1]))\n"
        f"for step in range({2 * BLOCK + 9}): writer.log({{'loss': 1.0, 'lr': 2.0}}, step)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, rank_folder(tmp_path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    (path,) = rank_folder(tmp_path).glob("*.metrics")
    assert checksums_path(path).stat().st_size == 24
    flip(path, 2 * BLOCK + 1, 20)
    assert damage(tmp_path) == ()
    flip(path, BLOCK, 20)
    assert len(damage(tmp_path)) == 1


@pytest.mark.processes
def test_a_child_that_is_forked_seals_nothing_of_its_parent(tmp_path: Path) -> None:
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log({"loss": 1.0}, step=0)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert not list(rank_folder(tmp_path).glob("*.sums"))
    assert len(list(rank_folder(tmp_path).glob("*.sums"))) == 1
