"""Writing five scalars against TensorBoard and files; drawing ten million rows; following a long file."""

import csv
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.rows import Row
from support.values.metrics import opened, rank_folder, segment_path, write_columns
from torchdeck.metrics import RunMetrics
from torchdeck.telemetry.table import Table
from torchdeck.telemetry.writer import MetricsWriter

VALUES = {"loss": 2.34, "lr": 3e-4, "grad_norm": 1.1, "tokens_per_s": 123456.0, "step_time": 0.25}
CALLS = 5000
ROUNDS = 4
"""All writers take turns, so that a busy machine is busy for each of them."""
PAIRS = 20
ROWS = 10_000_000
PIXELS = 2000
ZOOMS = 40
APPENDED = 1000
REPEATS = 5
"""Of reading, the least counts: it is the one that other work on the machine disturbed least."""


def run() -> list[Row]:
    """Rows for the goals of telemetry."""
    with tempfile.TemporaryDirectory() as folder:
        writing = [*_writing(Path(folder)), _checksums(Path(folder))]
        return [*writing, *_drawing(Path(folder)), *_following(Path(folder))]


def _writing(folder: Path) -> list[Row]:
    from torch.utils.tensorboard.writer import SummaryWriter

    ours = MetricsWriter(rank_folder(folder / "log"))
    board = SummaryWriter(folder / "board")
    with (folder / "x.csv").open("w") as csv_file, (folder / "x.jsonl").open("w") as json_file:
        csv_writer = csv.writer(csv_file)

        def board_row(step: int) -> None:
            for name, value in VALUES.items():
                board.add_scalar(name, value, step)

        def csv_row(step: int) -> None:
            csv_writer.writerow((step, time.time(), *VALUES.values()))
            csv_file.flush()

        def json_row(step: int) -> None:
            json_file.write(json.dumps({"step": step, "time": time.time(), **VALUES}) + "\n")
            json_file.flush()

        def ours_row(step: int) -> None:
            ours.log(VALUES, step=step)

        writers = {"ours": ours_row, "TensorBoard add_scalar ×5": board_row}
        writers |= {"csv row, flushed": csv_row, "JSON line, flushed": json_row}
        medians = _medians(writers)
        board.close()
    mine = medians.pop("ours")
    goals = {"TensorBoard add_scalar ×5": 10.0}
    return [
        Row("log of five scalars", mine, "µs", wanted=5.0, lower_is_better=True),
        *(
            Row("log of five scalars", mine, "µs", peer, name, peer / mine, goals.get(name))
            for name, peer in medians.items()
        ),
    ]


def _medians(writers: Mapping[str, Callable[[int], None]]) -> dict[str, float]:
    """Median microseconds a call."""
    took: dict[str, list[int]] = {name: [] for name in writers}
    for turn in range(ROUNDS):
        for name, write in writers.items():
            for step in range(turn * CALLS, (turn + 1) * CALLS):
                begun = time.perf_counter_ns()
                write(step)
                took[name].append(time.perf_counter_ns() - begun)
    return {name: statistics.median(found) / 1000 for name, found in took.items()}


def _checksums(folder: Path) -> Row:
    """Mean cost of a row, as most rows end no block; pairs in turns."""
    sealed, plain = (MetricsWriter(rank_folder(folder / name)) for name in ("sealed", "plain"))
    pairs = []
    for turn in range(PAIRS):
        steps = range(turn * CALLS, (turn + 1) * CALLS)
        with_sums = _mean(sealed, steps)
        with patch.object(Table, "_seal", _next_block):
            pairs.append((with_sums, _mean(plain, steps)))
    plain.close()
    sealed.close()
    ours, peer = (statistics.median(found) for found in zip(*pairs, strict=True))
    ratio = statistics.median(with_sums / without for with_sums, without in pairs)
    return Row("a row with its share of checksums", ours, "µs", peer, "without checksums", ratio)


def _next_block(table: Table, _end: int) -> None:
    """All that sealing a block does but its checksum."""
    table._block_begin, table._block_end = table._block_end, table._block_end + table._block_bytes


def _mean(writer: MetricsWriter, steps: range) -> float:
    """Mean microseconds a call."""
    begun = time.perf_counter_ns()
    for step in steps:
        writer.log(VALUES, step=step)
    return (time.perf_counter_ns() - begun) / len(steps) / 1000


def _drawing(folder: Path) -> list[Row]:
    rows = []
    for metrics in (1, 5):
        run = folder / f"drawing{metrics}"
        values = {f"m{number}": np.random.default_rng(number).normal(size=ROWS) for number in range(metrics)}
        steps = np.arange(ROWS)
        write_columns(segment_path(run), values, steps=steps, times=1.7e9 + steps)
        del values
        firsts, zooms, whole = [], [], []
        for seed in range(REPEATS):
            begun = time.perf_counter()
            opened_run = opened(run)
            opened_run.window("m0", 0, 0, ROWS - 1, PIXELS)
            firsts.append(time.perf_counter() - begun)
            zooms.append(max(_zooms(opened_run, seed)))
            begun = time.perf_counter()
            _plain_numpy(segment_path(run), metrics)
            whole.append(time.perf_counter() - begun)
        kind = f"ten million rows of {metrics} metric{'s' if metrics > 1 else ''}"
        first, zoom, plain = map(min, (firsts, zooms, whole))
        rows.append(Row(f"{kind}: open and draw all", first, "s", wanted=0.3, lower_is_better=True))
        rows.append(Row(f"{kind}: open and draw all", first, "s", plain, "numpy, whole file", plain / first))
        rows.append(Row(f"{kind}: slowest of {ZOOMS} zooms", zoom, "s", wanted=0.3, lower_is_better=True))
    return rows


def _zooms(metrics: RunMetrics, seed: int) -> list[float]:
    """Seconds for windows of all widths, anywhere."""
    random = np.random.default_rng(seed)
    found = []
    for width in np.geomspace(10, ROWS, ZOOMS):
        x0 = random.uniform(0, max(1.0, ROWS - width))
        begun = time.perf_counter()
        metrics.window("m0", 0, x0, x0 + width, PIXELS)
        found.append(time.perf_counter() - begun)
    return found


def _plain_numpy(path: Path, metrics: int) -> None:
    """What a script does without an index: read everything, least and greatest of 2,000 equal parts."""
    content = np.fromfile(path, offset=path.stat().st_size - ROWS * 8 * (2 + metrics))
    column = content.reshape(ROWS, 2 + metrics)[:, 2].reshape(PIXELS, -1)
    np.fmin.reduce(column, axis=1)
    np.fmax.reduce(column, axis=1)


def _following(folder: Path) -> list[Row]:
    short, long = (_follow(folder / f"following{rows}", rows) for rows in (10_000, ROWS))
    name = f"take in {APPENDED:,} new rows of ten million"
    return [Row(name, long, "ms", short, "of ten thousand", long / short, wanted=2.0, lower_is_better=True)]


def _follow(run: Path, rows: int) -> float:
    """Least milliseconds to see appended rows: refresh, newest value, and a window of the last rows."""
    steps = np.arange(rows)
    path = segment_path(run)
    write_columns(path, {"loss": np.ones(rows)}, steps=steps, times=1.7e9 + steps)
    metrics = opened(run)
    metrics.window("loss", 0, 0, rows, PIXELS)
    found = []
    for _ in range(30):
        with path.open("ab") as file:
            for step in range(rows, rows + APPENDED):
                file.write(np.array([step], "<i8").tobytes() + np.array([1.7e9 + step, 1.0]).tobytes())
        rows += APPENDED
        begun = time.perf_counter()
        metrics.refresh()
        metrics.latest("loss", 0)
        metrics.window("loss", 0, rows - APPENDED, rows, PIXELS)
        found.append((time.perf_counter() - begun) * 1000)
    return min(found)
