"""Stacks of threads, as faulthandler writes them."""

from __future__ import annotations

import inspect
import sys
import threading
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.telemetry.doctor.main_thread import MainThread, shown_place
from torchdeck.telemetry.doctor.thread_stacks import INNERMOST, OUTERMOST, Place, ThreadStacks, parse_stacks

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), min_size=1, max_size=20)


def test_the_main_thread_is_read_as_python_sees_it() -> None:
    """Files, lines and functions, innermost first; also from another thread."""
    stacks = ThreadStacks()
    found: list[Place] = []
    thread = threading.Thread(target=lambda: found.extend(stacks.main_thread()))
    thread.start()
    thread.join()
    frame = inspect.currentframe()
    expected = [(entry.filename, entry.name) for entry in reversed(traceback.extract_stack(frame))]
    at = next(i for i, place in enumerate(found) if place.file == __file__)
    # pytest's own frames may be more than are read
    own = [(place.file, place.function) for place in found[at:INNERMOST]]
    assert own == expected[: INNERMOST - at]
    assert all(place.line > 0 for place in found)


def test_without_the_gil_no_stack_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """faulthandler would walk the frames of threads that run."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    stacks, main = ThreadStacks(), MainThread()
    assert (stacks.main_thread(), stacks.all_threads(), main.all_threads()) == ([], {}, [])
    assert main.sample(0) == ("", "", 0, False)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True)
    assert stacks.main_thread()
    assert main.sample(0).places == 1


def test_all_threads_are_named_and_the_main_thread_is_first() -> None:
    """A waiting thread with a file name that is not ASCII is among them."""
    begun, ends = threading.Event(), threading.Event()
    code = compile("def wärten(begun, ends):\n    begun.set()\n    ends.wait()\n", "/tmp/größe ☃.py", "exec")
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - a function in a file of that name
    thread = threading.Thread(target=names["wärten"], args=(begun, ends), name="waiting")  # type: ignore[arg-type]  # it is a function
    thread.start()
    begun.wait()
    try:
        first, *others = MainThread().all_threads()
    finally:
        ends.set()
        thread.join()
    assert first["main"]
    (own,) = [other for other in others if other["name"] == "waiting"]
    own_frame = next(frame for frame in own["frames"] if frame["file"] == "/tmp/größe ☃.py")
    assert (own_frame["line"], own_frame["function"]) == (3, "wärten")


@given(
    st.dictionaries(
        st.integers(1, 1 << 63),
        st.lists(st.tuples(NAMES, st.integers(0, 99999), NAMES), max_size=5),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_read(threads: dict[int, list[tuple[str, int, str]]]) -> None:
    """As CPython's traceback.c writes it, with any characters in names."""
    text = ""
    for number, (ident, frames) in enumerate(threads.items()):
        text += f"{'Current thread' if number == 0 else 'Thread'} 0x{ident:016x} (most recent call first):\n"
        lines = [f'  File "{ascii_of(f)}", line {n or "???"} in {ascii_of(name)}\n' for f, n, name in frames]
        text += "".join(lines) or "  <no Python frame>\n"
        text += "\n"
    expected = {ident: [Place(*frame) for frame in frames] for ident, frames in threads.items()}
    assert parse_stacks(text) == expected


@pytest.mark.parametrize("depth", [INNERMOST + OUTERMOST, 99])
def test_the_users_line_below_many_frames_of_libraries_is_read(depth: int) -> None:
    """As many frames are read as before, and those that called everything are among them."""
    library = "".join(
        f'  File "/venv/lib/python3.11/site-packages/x.py", line {line} in f\n' for line in range(1, depth)
    )
    text = f'Thread 0x{7:016x} (most recent call first):\n{library}  File "/code/train.py", line 9 in main\n'
    (found,) = parse_stacks(text).values()
    assert shown_place(found) == "train.py:9 main"
    assert [place.line for place in found[:INNERMOST]] == list(range(1, INNERMOST + 1))
    assert len(found) == INNERMOST + OUTERMOST


def ascii_of(text: str) -> str:
    """As faulthandler writes a text."""

    def written(character: str) -> str:
        number = ord(character)
        if 32 <= number <= 126:
            return character
        return (
            f"\\x{number:02x}"
            if number < 256
            else f"\\u{number:04x}"
            if number < 65536
            else f"\\U{number:08x}"
        )

    return "".join(written(character) for character in text)


def test_reading_the_stacks_of_a_busy_thread_for_long_is_safe() -> None:
    """Generators, exceptions and finalizers come and go while another thread reads 2,000 times."""
    interval = sys.getswitchinterval()
    stacks, stops = ThreadStacks(), threading.Event()
    read: list[int] = []

    def reads() -> None:
        while len(read) < 2000:
            read.append(len(stacks.main_thread()))
        stops.set()

    thread = threading.Thread(target=reads)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        while not stops.is_set():
            _comes_and_goes(20)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert min(read) > 0


class _Finalized:
    def __del__(self) -> None:
        sorted(range(5), key=lambda number: -number)


def _comes_and_goes(depth: int) -> object:
    kept = _Finalized()
    numbers = (number for number in range(3))
    next(numbers)
    try:
        return _comes_and_goes(depth - 1) if depth else next(numbers for _ in ())
    except StopIteration:
        return kept


class Costs:
    """A clock, and the processor time of samples, each of which costs `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now, self.samples = 0.0, 0
        self._seconds, self._asked = seconds, 0

    def clock(self) -> float:
        return self.now

    def spent(self) -> float:
        """Read before and after each sample."""
        self._asked += 1
        self.samples = self._asked // 2
        return self.samples * self._seconds


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(0.0007, 100, 100), (0.0076, 24, 34), (0.1, 2, 2)])
def test_samples_take_a_bounded_share_of_the_time(seconds: float, fewest: int, most: int) -> None:
    """Heartbeats of 100 s, by the cost of one sample: with a few threads, and with many."""
    costs = Costs(seconds)
    main = MainThread(costs.clock, costs.spent)
    for second in range(100):
        costs.now = float(second)
        assert main.sample(second).place.startswith("test_thread_stacks.py:")
    assert fewest <= costs.samples <= most
    assert costs.samples * seconds <= 0.002 * 100 + seconds


def test_one_place_is_known_only_after_some_samples_if_these_are_far_apart() -> None:
    """A loop of two lines is seen at one of them now and then."""
    costs = Costs(0.0076)
    main = MainThread(costs.clock, costs.spent)
    places = []
    for _ in range(9):
        costs.now += 5.0
        places.append(main.sample(3).places)
    assert places == [2] * 7 + [1] * 2
    cheap = Costs(0.0007)
    assert MainThread(cheap.clock, cheap.spent).sample(3).places == 1
