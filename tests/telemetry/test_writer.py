"""What the writer keeps, leaves out and survives, in one process."""

import itertools
import logging
import math
import os
import resource
import signal
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.system.open_files import open_files
from support.values.metrics import opened, rank_folder
from torchdeck.metrics import RunMetrics
from torchdeck.telemetry.writer import KEY_SET_LIMIT, TABLE_LIMIT, MetricsWriter


def open_below(folder: Path) -> int:
    """How many files below a folder this process has open: what other tests left may be closed meanwhile."""
    return sum(path.is_relative_to(folder) for path in open_files(os.getpid()))


def series(run: Path, name: str) -> list[tuple[int, float]]:
    """(step, value) of rank 0."""
    found = opened(run).series(name, 0)
    return list(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def test_row_is_on_file_when_log_returns(tmp_path: Path) -> None:
    """Another reader sees a row at once, without close or flush."""
    writer = MetricsWriter(rank_folder(tmp_path))
    writer.log({"loss": 2.5, "lr": 0.1}, step=7)
    assert series(tmp_path, "loss") == [(7, 2.5)]
    assert series(tmp_path, "lr") == [(7, 0.1)]


def test_a_row_has_the_time_it_is_given(tmp_path: Path) -> None:
    """With new names and with known ones."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for step in range(3):
            writer.log({"loss": 1.0}, step=step, at=1e9 + step)
    assert opened(tmp_path).series("loss", 0).times.tolist() == [1e9, 1e9 + 1, 1e9 + 2]


def test_new_names_and_other_cadences(tmp_path: Path) -> None:
    """A name that appears in mid-run, and one that comes now and then, are series of their own."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for step in range(10):
            writer.log({"loss": step / 2} | ({"accuracy": float(step)} if step % 4 == 0 else {}), step=step)
    assert series(tmp_path, "loss") == [(step, step / 2) for step in range(10)]
    assert series(tmp_path, "accuracy") == [(0, 0.0), (4, 4.0), (8, 8.0)]


def test_order_of_names_makes_no_table(tmp_path: Path) -> None:
    """The same names in every order are rows of one file, each value under its name."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for step, names in enumerate(itertools.permutations("abc")):
            writer.log({name: ord(name) + step for name in names}, step=step)
    assert len(list(rank_folder(tmp_path).glob("*.metrics"))) == 1
    assert series(tmp_path, "b") == [(step, ord("b") + step) for step in range(6)]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(-3), -3.0),
        (np.array(4.0), 4.0),
        (torch.tensor(2.0), 2.0),
        (torch.tensor([2.0], requires_grad=True).sum(), 2.0),
        (torch.tensor(3), 3.0),
        (torch.tensor([[1.5]], dtype=torch.bfloat16), 1.5),
        (Fraction(1, 4), 0.25),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
    ],
    ids=str,
)
def test_anything_that_is_one_number(tmp_path: Path, value: float, number: float) -> None:
    """Numbers of Python, numpy and torch are kept, first seen or not, and warn about nothing."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log({"x": 0.0, "y": value}, step=0)
        writer.log({"x": 0.0, "y": value}, step=1)
    assert series(tmp_path, "y") == [(0, number), (1, number)]


def test_nan_is_kept(tmp_path: Path) -> None:
    """A loss that became NaN is a row, not a gap."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log({"loss": math.nan}, step=1)
    ((step, value),) = series(tmp_path, "loss")
    assert step == 1
    assert math.isnan(value)


class Rude:
    """Something whose float is an error of its own kind."""

    def __float__(self) -> float:
        raise LookupError("no")


@pytest.mark.parametrize(
    "value",
    ["1.5", None, 1j, 10**400, torch.ones(2), np.ones(3), [1.0], Rude(), object()],
    ids=["text", "none", "complex", "beyond a float", "tensor", "array", "list", "raises", "object"],
)
def test_what_is_no_number_is_left_out_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, value: object
) -> None:
    """The other values of the row are kept; one warning names the metric; nothing raises."""
    with MetricsWriter(rank_folder(tmp_path)) as writer, caplog.at_level(logging.WARNING, "torchdeck"):
        for step in range(3):
            writer.log({"loss": 1.0, "odd": value}, step=step)  # type: ignore[dict-item]
    assert series(tmp_path, "loss") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert opened(tmp_path).names() == ["loss"]
    assert [record.getMessage().split(":")[1].strip() for record in caplog.records] == ["odd"]


@pytest.mark.parametrize(
    "values", [None, 3, ["loss"], "loss", {3: 1.0}, {"": 1.0}, {"x" * 300: 1.0}, {}], ids=repr
)
def test_what_is_no_mapping_of_names_is_left_out(tmp_path: Path, values: object) -> None:
    """A call with something else than named numbers writes nothing and does not raise."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log(values, step=1)  # type: ignore[arg-type]
    assert not rank_folder(tmp_path).exists()


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (5, 5),
        (np.int32(6), 6),
        (torch.tensor(7), 7),
        (8.9, 8),
        (True, 1),
        ("9", 0),
        (2**70, 0),
        (math.nan, 0),
    ],
    ids=repr,
)
def test_steps_of_any_kind(tmp_path: Path, step: int, number: int) -> None:
    """A step is a whole number; one that is none is counted on from the last, and the row is kept."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log({"loss": 1.0}, step=step)
    assert series(tmp_path, "loss") == [(number, 1.0)]


def test_steps_count_on_where_none_is_given(tmp_path: Path) -> None:
    """Without a step a row follows its table's last, and is never before what was logged elsewhere."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for _ in range(3):
            writer.log({"loss": 1.0})
        writer.log({"loss": 1.0}, step=1000)
        writer.log({"accuracy": 0.5})
        writer.log({"accuracy": 0.6})
    assert [step for step, _ in series(tmp_path, "loss")] == [0, 1, 2, 1000]
    assert [step for step, _ in series(tmp_path, "accuracy")] == [1000, 1001]


def test_too_many_sets_of_names_become_one_table_a_name(tmp_path: Path) -> None:
    """After 64 sets, rows are split by name; nothing is lost, and few files are open."""
    names = [f"m{index}" for index in range(40)]
    pairs = list(itertools.combinations(names, 2))[: KEY_SET_LIMIT + 200]
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for step, (first, second) in enumerate(pairs):
            writer.log({first: 1.0, second: 2.0}, step=step)
        assert 0 < open_below(tmp_path) <= KEY_SET_LIMIT
    metrics = opened(tmp_path)
    for name in names:
        wanted = [step for step, pair in enumerate(pairs) if name in pair]
        assert metrics.series(name, 0).steps.tolist() == wanted
    assert len(list(rank_folder(tmp_path).glob("*.metrics"))) <= KEY_SET_LIMIT + len(names)


def test_names_made_from_data_do_not_fill_the_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Names without end stop at a limit that is said once; those there are continue."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for sample in range(TABLE_LIMIT + 10):
            writer.log({f"loss_of_{sample}": 1.0}, step=sample)
        writer.log({"loss_of_0": 2.0}, step=1)
    assert len(list(rank_folder(tmp_path).glob("*.metrics"))) == TABLE_LIMIT
    assert series(tmp_path, "loss_of_0") == [(0, 1.0), (1, 2.0)]
    assert len(caplog.records) == 1


def test_threads_lose_nothing(tmp_path: Path) -> None:
    """Four threads that log at once, with sets of their own and one in common, keep every row."""
    writer = MetricsWriter(rank_folder(tmp_path))

    def work(thread: int) -> None:
        for step in range(2000):
            writer.log({"shared": float(thread)}, step=step)
            writer.log({f"own{thread}": float(step), "x": 1.0}, step=step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics = opened(tmp_path)
    assert len(metrics.series("shared", 0)) == 8000
    for number in range(4):
        assert sorted(metrics.series(f"own{number}", 0).values.tolist()) == [
            float(step) for step in range(2000)
        ]
    assert writer.lost == 0


def test_signal_handler_that_logs_in_the_middle_of_a_log(tmp_path: Path) -> None:
    """Rows of a handler that interrupts log() anywhere overwrite nothing."""
    writer = MetricsWriter(rank_folder(tmp_path))
    calls = []
    depth = 0

    def handler(_signal: int, _frame: object) -> None:
        nonlocal depth
        if depth < 3:  # a slow machine must not nest them up to the recursion limit
            depth += 1
            calls.append(1)
            writer.log({"loss": -1.0}, step=0)
            depth -= 1

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        for step in range(20000):
            writer.log({"loss": 1.0}, step=step)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    values = opened(tmp_path).series("loss", 0).values
    assert (values == 1.0).sum() == 20000
    assert (values == -1.0).sum() == len(calls) > 0


@pytest.mark.processes
def test_forked_child_has_files_of_its_own(tmp_path: Path) -> None:
    """Parent and child log on after a fork, from a thread's lock held or not, and no row is overwritten."""
    writer = MetricsWriter(rank_folder(tmp_path))
    writer.log({"loss": 0.0}, step=0)
    with writer._lock:  # as if another thread were making a table at the moment of the fork
        child = os.fork()
        if child == 0:
            for step in range(1, 100):
                writer.log({"loss": 1.0}, step=step)
            writer.log({"of_child": 5.0}, step=1)
            os._exit(0)
    for step in range(1, 100):
        writer.log({"loss": 2.0}, step=step)
    assert os.waitpid(child, 0)[1] == 0
    values = opened(tmp_path).series("loss", 0).values.tolist()
    assert sorted(values) == [0.0] + [1.0] * 99 + [2.0] * 99
    assert series(tmp_path, "of_child") == [(1, 5.0)]


def test_full_disk_loses_rows_and_recovers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where no byte more can be written, nothing raises, rows are counted; with room again they are kept."""
    writer = MetricsWriter(rank_folder(tmp_path))
    writer.log({"loss": 0.0, "lr": 0.0}, step=0)
    size = next(rank_folder(tmp_path).glob("*.metrics")).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, limits[1]))  # room for a row and a part of one
        for step in range(1, 6):
            writer.log({"loss": float(step), "lr": 1.0}, step=step)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert writer.lost == 4
    writer.log({"loss": 9.0, "lr": 2.0}, step=9)
    assert series(tmp_path, "loss") == [(0, 0.0), (1, 1.0), (9, 9.0)]
    assert series(tmp_path, "lr")[-1] == (9, 2.0)
    assert len(caplog.records) == 2
    assert "4 rows were lost" in caplog.text


def test_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file where the folder should be loses rows, said once; once it is gone they are kept."""
    (tmp_path / "attempts").write_text("in the way")
    writer = MetricsWriter(rank_folder(tmp_path))
    for step in range(3):
        writer.log({"loss": 1.0}, step=step)
    assert writer.lost == 3
    assert len(caplog.records) == 1
    (tmp_path / "attempts").unlink()
    writer.log({"loss": 1.0}, step=3)
    assert series(tmp_path, "loss") == [(3, 1.0)]


def test_close_and_go_on(tmp_path: Path) -> None:
    """A closed writer begins new files with the next row, and closes every file it opened."""
    writer = MetricsWriter(rank_folder(tmp_path))
    writer.log({"loss": 1.0}, step=1)
    assert open_below(tmp_path) == 1
    writer.close()
    writer.log({"loss": 2.0}, step=2)
    writer.close()
    assert series(tmp_path, "loss") == [(1, 1.0), (2, 2.0)]
    assert open_below(tmp_path) == 0


def test_unknown_source_is_refused(tmp_path: Path) -> None:
    """A source that the reader could not rank is a mistake of the caller."""
    with pytest.raises(ValueError, match="log, trainer, inside, file, stdout, stderr, system"):
        MetricsWriter(tmp_path, source="other")


def test_files_are_private(tmp_path: Path) -> None:
    """No one else may read a run's metrics."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        writer.log({"loss": 1.0})
    (path,) = rank_folder(tmp_path).glob("*.metrics")
    assert path.stat().st_mode & 0o077 == 0


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: name[0] != "_"
)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.dictionaries(
            NAMES, st.floats(allow_nan=False) | st.integers(-(2**53), 2**53), min_size=1, max_size=5
        ),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_everything_logged_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, dict[str, float]]]
) -> None:
    """Any rows of any names come back, each series in order, bit for bit."""
    run = tmp_path_factory.mktemp("run")
    metrics = RunMetrics(run)
    wanted: dict[str, list[tuple[int, float]]] = {}
    with MetricsWriter(rank_folder(run)) as writer:
        for step, values in rows:
            writer.log(values, step=step)
            metrics.refresh()
            for name, value in values.items():
                wanted.setdefault(name, []).append((step, float(value)))
    assert metrics.names() == sorted(wanted)
    for name, pairs in wanted.items():
        found = metrics.series(name, 0)
        assert list(zip(found.steps.tolist(), found.values.tolist(), strict=True)) == pairs
