"""`torchdeck` with the page of a run in sight, which says what it takes while no one touches it, and closes.

`python window_idle_worker.py RUN_ID SECONDS` prints one line of JSON: `processor` seconds of the process and
of its `gui` thread over `seconds`, the run's `state`, and meanwhile the `steps` that it logged and the
`wakeups` of all threads.
"""

import json
import resource
import sys
import time
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torchdeck_app.runs.page.run_page import RunPage
    from torchdeck_app.runs.run_watch import RunSeen
    from torchdeck_app.runs.runs_page import RunsPage
    from torchdeck_app.window.main_window import MainWindow

PATIENCE = 90.0
"""Seconds in which the run trains, and its page shows it."""
SETTLE = 12.0
"""Seconds before the count: what is loaded late is loaded."""


class Idle:
    """Opens the page, waits, counts, closes."""

    def __init__(self, window: "MainWindow", run_id: str, seconds: float) -> None:
        from PySide6.QtCore import QTimer

        self._window, self._seconds = window, seconds
        self._limit = time.monotonic() + PATIENCE
        self._before = (0.0, 0.0, 0.0, 0, 0)
        self._step = 0
        window.stack.show_page("Runs")
        window.stack.when_made("Runs", lambda place: cast("RunsPage", place).open_run(run_id))
        self._look = QTimer(window)
        self._look.timeout.connect(self._wait)
        self._look.start(200)

    @property
    def _page(self) -> "RunPage | None":
        place = self._window.stack.places.get("Runs")
        page: RunPage | None = getattr(place, "page", None)
        return page

    @property
    def _now(self) -> tuple[float, float, float, int, int]:
        waited = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        times = time.monotonic(), time.process_time(), time.thread_time()
        return *times, self._step, waited

    def _wait(self) -> None:
        from PySide6.QtCore import QTimer

        page = self._page
        stack = self._window.stack
        made = len(stack.places) == len(stack.names)  # the others are made later, when there is time
        trains = page is not None and page.header.state_word == "running" and page.plots.answer is not None
        if page is not None and made and trains:
            self._look.stop()
            page.seen.connect(self._keep)
            QTimer.singleShot(round(SETTLE * 1000), self._begin)
        elif time.monotonic() > self._limit:
            print("the page of the run did not show it running", file=sys.stderr)
            self._window.close()

    def _keep(self, seen: "RunSeen") -> None:
        self._step = (seen.progress.step if seen.progress is not None else None) or 0

    def _begin(self) -> None:
        from PySide6.QtCore import QTimer

        self._before = self._now
        QTimer.singleShot(round(self._seconds * 1000), self._say)

    def _say(self) -> None:
        names = ("seconds", "processor", "gui", "steps", "wakeups")
        spent = (after - before for after, before in zip(self._now, self._before, strict=True))
        page = self._page
        state = page.header.state_word if page is not None else ""
        print(json.dumps({**dict(zip(names, spent, strict=True)), "state": state}), flush=True)
        self._window.close()


def main(run_id: str, seconds: float) -> int:
    """The command line's own way, looked at from inside the event loop."""
    from torchdeck_app.window.qt_start import load_qt

    load_qt()
    from PySide6.QtWidgets import QApplication

    original = QApplication.exec
    kept: list[Idle] = []

    def watched(*_: object) -> int:
        from torchdeck_app.window.main_window import MainWindow

        window = next(top for top in QApplication.topLevelWidgets() if isinstance(top, MainWindow))
        window.painted.connect(lambda: kept.append(Idle(window, run_id, seconds)))
        return original()

    QApplication.exec = watched  # type: ignore[method-assign]  # the one way in
    from torchdeck.cli.main import main as torchdeck

    return torchdeck([])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
