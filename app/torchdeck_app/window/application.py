"""Application: creates window, pages, session and notifications, and runs until the window is closed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QLibraryInfo, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from torchdeck.runs.home import HomeError, torchdeck_home
from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.settings.user_settings import VERSION as SETTINGS_VERSION
from torchdeck_app.settings.user_settings import Settings, SettingsStore, read_settings, settings_file
from torchdeck_app.theme.icons import drawn
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import HelpPages
from torchdeck_app.widgets.page import Page
from torchdeck_app.window.connections import LAUNCH, NODES, QUEUE, RUNS, Connections
from torchdeck_app.window.error_report import ErrorReports
from torchdeck_app.window.garbage import GarbageCollector
from torchdeck_app.window.importing import Importer
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.own_actions import OwnActions
from torchdeck_app.window.page_stack import PageEntry
from torchdeck_app.window.saved_session import VERSION as SESSION_VERSION
from torchdeck_app.window.saved_session import (
    SavedState,
    Session,
    SessionWriter,
    read_session,
    session_file,
)

if TYPE_CHECKING:  # imported after the first paint
    from torchdeck_app.bridge.logins import Logins
    from torchdeck_app.bridge.run_list import RunListPoller
    from torchdeck_app.window.later_parts import LaterParts
    from torchdeck_app.window.palette_items import PaletteItem


# Including modules that their threads would import later: if two threads import a package at once, as with
# the importer and the next page, one of them sees it half-initialized.
RUN_LIST_MODULES = (
    "torchdeck_app.bridge.run_list", "torchdeck.metrics", "torchdeck.metrics.pace",
    "torchdeck.use_cases.kept_controller",
)  # fmt: skip
_RUNS_MODULES = (
    "pyqtgraph", *RUN_LIST_MODULES, "torchdeck.distributed.rank_settings", "torchdeck_app.runs.runs_page",
)  # fmt: skip
_LOGIN_MODULES = ("torchdeck_app.bridge.logins", "torchdeck_app.nodes.window_asker")


def page_entries(
    theme: Theme, operations: Operations, home: Path, run_list: Callable[[], RunListPoller]
) -> tuple[PageEntry, ...]:
    """Return the pages of the window. Their modules are imported after the first paint.

    Args:
        theme: theme of the window.
        operations: runs blocking work.
        home: TORCHDECK_HOME.
        run_list: returns the single poller of the runs, shared by all pages that show runs.
    """

    @cache
    def logins() -> Logins:
        from torchdeck_app.bridge.logins import make_logins
        from torchdeck_app.nodes.window_asker import WindowAsker

        asker = WindowAsker(home, operations)
        return make_logins(home, asker, asker.ask_again)

    def launch() -> Page:
        from torchdeck_app.launch.document_tabs import DocumentTabs

        return DocumentTabs(theme, operations, home, logins=logins())

    def runs() -> Page:
        from torchdeck_app.runs.runs_page import RunsPage

        return RunsPage(theme, operations, home, run_list(), logins=logins())

    def nodes() -> Page:
        from torchdeck_app.nodes.nodes_page import NodesPage

        return NodesPage(theme, operations, home, logins=logins(), run_list=run_list())

    def queue() -> Page:
        from torchdeck_app.queue.queue_page import QueuePage

        return QueuePage(theme, operations, home)

    return (
        PageEntry(LAUNCH, "launch", ("torchdeck_app.launch.document_tabs", *_LOGIN_MODULES), launch),
        PageEntry(RUNS, "runs", (*_RUNS_MODULES, *_LOGIN_MODULES), runs),
        PageEntry(NODES, "nodes", ("torchdeck_app.nodes.nodes_page", *_LOGIN_MODULES), nodes),
        PageEntry(QUEUE, "queue", ("torchdeck_app.queue.queue_page",), queue),
    )


BAD_HOME = 2
"""Exit code if TORCHDECK_HOME cannot be used."""
_RUN_LIST = "run list"
MakeEntries = Callable[[Theme, Operations, Path, Callable[[], "RunListPoller"]], tuple[PageEntry, ...]]
_LAST_WRITE = 5.0
"""Seconds that closing waits for a slow disk; the window is already hidden by then."""
_PATIENCE = 1.0
"""Seconds that closing waits for an import or a poll of the runs."""
_ICON_SIZES = (16, 32, 48, 128)


SHOW_RUN = "--run"
"""Argument before the id of a run to show."""


def platform_plugins() -> Path:
    """Return the folder of Qt's platform plugins."""
    return Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)) / "platforms"


def run_window(argv: Sequence[str]) -> int:
    """Show the window until it is closed; return the exit code.

    Args:
        argv: a run file or a script to open, `--run ID` for a run to show, or nothing.
    """
    try:
        home = torchdeck_home()
    except HomeError as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        show_refusal(str(error))
        return BAD_HOME
    kept = SavedState(
        settings_file(home),
        session_file(home),
        settings_version=SETTINGS_VERSION,
        session_version=SESSION_VERSION,
    )
    app = QApplication([sys.argv[0]])
    app.setApplicationName("torchdeck")
    app.setApplicationDisplayName("Torchdeck")
    app.setDesktopFileName("torchdeck")
    app.setQuitOnLastWindowClosed(False)  # an open dialog or tray icon would keep it running
    made = WindowApplication(app, home, kept)
    made.ended.connect(app.exit, Qt.ConnectionType.QueuedConnection)
    shows_run = len(argv) == 2 and argv[0] == SHOW_RUN
    made.open(Path(argv[0]).absolute() if argv and not shows_run else None)
    if shows_run:
        made.connections.open_run(argv[1])
    garbage = GarbageCollector(app)
    made.window.stack.all_made.connect(garbage.start)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            # from the event loop: a signal may arrive between any two steps of the current code
            signal.signal(number, lambda which, _frame: QTimer.singleShot(0, lambda: made.end(128 + which)))
    code = app.exec()
    if not made.close() or threading.active_count() > 1:
        # a thread waits for a slow drive: Python would end it in the middle of C++ code, which aborts the
        # process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def show_refusal(why: str) -> None:
    """Show why there is no window in a dialog: a desktop's icon shows no error output."""
    app = QApplication([sys.argv[0]])
    if app.platformName() in ("offscreen", "minimal"):
        return  # no one would close it
    box = QMessageBox(QMessageBox.Icon.Critical, "Torchdeck cannot start", shown(why))
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.exec()


class WindowApplication(QObject):
    """Owner of one window and of everything with the same lifetime."""

    ended = Signal(int)
    """Emitted with the exit code when the window has been closed."""

    def __init__(
        self, app: QApplication, home: Path, kept: SavedState, make_entries: MakeEntries = page_entries
    ) -> None:
        super().__init__(app)
        self._app = app
        self._exit_code = 0
        self._home = home
        self._kept = kept
        self._run_list: RunListPoller | None = None
        self._is_sure = False
        self.operations = Operations(self)
        self._writer = BackgroundWriter(self)
        self._was_read = kept.wait()
        settings, self._passed_over = (
            read_settings(kept.settings.value) if self._was_read else (Settings(), "")
        )
        self.store = SettingsStore(settings, home, self._writer, self)
        self.theme = Theme(app, settings.theme)
        self.store.changed.connect(lambda: self.theme.set_mode(self.store.settings.theme))
        self._importer = Importer(self)
        entries = make_entries(self.theme, self.operations, home, self.run_list)
        self.window = MainWindow(self.theme, self.operations, entries, self._importer)
        self.connections = Connections(self.window.stack, lambda: self.store.settings.chosen_editor)
        own = OwnActions(self.window, self.store, self.connections.open_path, self.theme, self.operations)
        self.window.set_own_actions(own.menus())
        self._opens: Path | None = None
        self._restored = Session()
        self._later: LaterParts | None = None
        self._own = own
        self.help_pages = HelpPages(self.operations, self)
        self._keeper = SessionWriter(session_file(home), self._writer, self._session, self)
        self._reports = ErrorReports(self.window)
        self._connect()

    def open(self, path: Path | None) -> None:
        """Show the window in its last state, with `path` opened if given."""
        self._reports.install()
        self._opens = path
        self._take_up()
        self.window.show()

    def close(self) -> bool:
        """Shut down everything around the closed window; return whether all of it has ended."""
        self._importer.close()
        looks_no_more = self._run_list is None or self._run_list.stop(_PATIENCE)
        have_ended = self.operations.close()
        self.help_pages.close()
        self._writer.close(_LAST_WRITE)
        self._reports.uninstall()
        return looks_no_more and have_ended

    def end(self, code: int) -> None:
        """Close without confirmation; for signals."""
        self._is_sure = True
        self._exit_code = code
        self.window.close()

    def run_list(self) -> RunListPoller:
        """Return the single poller of the runs, created on first use. In the GUI thread."""
        if self._run_list is None:
            from torchdeck_app.bridge.run_list import RunListPoller

            self._run_list = poller = RunListPoller(self._home, self)
            status = self.window.status
            poller.changed.connect(status.show_runs)
            poller.failed.connect(lambda error: status.show_trouble(str(error)))
            poller.waiting.connect(status.show_waiting)
            if self._later is not None:
                poller.changed.connect(self._later.news.take)
            poller.start()
        return self._run_list

    def _connect(self) -> None:
        window = self.window
        window.may_close = self._may_close
        window.close_asked.connect(self._ask_to_close)
        window.closed.connect(self._keep_last)
        window.painted.connect(self._begin, Qt.ConnectionType.QueuedConnection)
        window.status.run_chosen.connect(self.connections.open_run)
        self._importer.imported.connect(lambda name: self.run_list() if name == _RUN_LIST else None)

    def _take_up(self) -> None:
        """Restore the session if it has been read, and open the given path."""
        if self._was_read:
            self._restored = read_session(self._kept.session.value)
        self.window.restore(self._restored)
        if self._opens is not None:
            self.connections.open_path(self._opens)
        self.window.focus_page(self.window.stack.current)

    def _begin(self) -> None:
        """Continue after the first paint."""
        self.window.setWindowIcon(_window_icon())
        self.window.stack.begin()
        self._importer.request(_RUN_LIST, RUN_LIST_MODULES)
        from torchdeck_app.window.later_parts import LaterParts

        self._later = later = LaterParts(
            self.window, self.theme, self.store, self.connections, self._run_items, self._restored.recent
        )
        self._own.palette_asked.connect(later.palette.open)
        self._own.answer_asked.connect(later.notices.answer_newest)
        self._writer.failed.connect(later.warn)
        self.help_pages.failed.connect(later.warn)
        for sentence in (*self._kept.messages, self._passed_over):
            if sentence:
                later.warn(sentence)
        if self._was_read:
            self._keeper.start()
        else:
            later.warn(f"{self._home} does not answer: the window starts with defaults, and saves nothing.")

    def _session(self) -> Session:
        recent = self._restored.recent if self._later is None else self._later.palette.recent
        return self.window.session(recent)

    def _run_items(self) -> list[PaletteItem]:
        from torchdeck_app.window.palette_items import run_items

        entries = () if self._run_list is None else self._run_list.seen.entries
        return run_items(entries, self.connections.open_run)

    def _live(self) -> list[str]:
        entries = () if self._run_list is None else self._run_list.seen.entries
        return [entry.name for entry in entries if entry.is_live]

    def _may_close(self) -> bool:
        return self._is_sure or not (self.store.settings.ask_on_close and self._live())

    def _ask_to_close(self) -> None:
        live = self._live()
        box = QMessageBox(self.window)
        box.setWindowTitle("Close the window?")
        box.setText("1 run continues." if len(live) == 1 else f"{len(live)} runs continue.")
        box.setInformativeText("They are not stopped. The window shows them again when it is opened.")
        leave = box.addButton("&Close window", QMessageBox.ButtonRole.AcceptRole)
        box.addButton("&Stay", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(leave)
        box.finished.connect(lambda _result: self._close_for_good() if box.clickedButton() is leave else None)
        box.finished.connect(box.deleteLater)
        box.open()

    def _close_for_good(self) -> None:
        self._is_sure = True
        self.window.close()

    def _keep_last(self) -> None:
        """Save the session while the window closes: its pages still exist."""
        self._keeper.stop()
        if self._later is not None:
            self._later.tray.close()
        self.ended.emit(self._exit_code)


def _window_icon() -> QIcon:
    made = QIcon()
    for size in _ICON_SIZES:
        made.addPixmap(drawn("torchdeck", "", size))
    return made
