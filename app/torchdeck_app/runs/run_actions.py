"""Actions on the selected runs, with shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from torchdeck.runs.run_list import RunEntry
from torchdeck_app.runs.abilities import Abilities, RunCommand
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

PIN, UNPIN = "Pin", "Unpin"
ARCHIVE, UNARCHIVE = "Archi&ve", "Bring back from archi&ve"
_ALL = (
    # name, text, shortcut, icon, description
    (RunCommand.STOP, "&Stop", "Ctrl+.", "stop", "Finish the step, save a checkpoint, exit"),
    (RunCommand.STOP_NOW, "Stop &now", "Ctrl+Shift+.", "", "End every process at once"),
    (RunCommand.RESUME, "&Resume", "Ctrl+R", "resume", "Continue from the newest complete checkpoint"),
    (
        RunCommand.RESUME_WITH,
        "Res&ume with arguments …",
        "Ctrl+Alt+R",
        "",
        "Enter the arguments with which a script continues from its checkpoint",
    ),
    (
        RunCommand.ATTACH,
        "&Attach",
        "Ctrl+Shift+A",
        "nodes",
        "Enter the logins of the run's nodes, and follow it again",
    ),
    (
        RunCommand.ATTACH_ELSEWHERE,
        "Attach to a run on a n&ode …",
        "Ctrl+Alt+A",
        "",
        "Follow a run that was started from another machine",
    ),
    (
        RunCommand.WATCH,
        "&Watch a training …",
        "Ctrl+Alt+W",
        "",
        "Show a training that was started without Torchdeck: by its folder or process",
    ),
    (RunCommand.END_WATCH, "&End watch", "", "", "Leave the training alone, and keep what was read of it"),
    (
        RunCommand.STACKS,
        "Stac&ks of all ranks",
        "Ctrl+Alt+K",
        "",
        "Show the current line of every rank, and which one blocks the others",
    ),
    (
        RunCommand.PROFILE,
        "&Profile for 5 s",
        "Ctrl+Alt+P",
        "",
        "Record what the ranks do for 5 s, as traces for Perfetto; the run continues",
    ),
    (RunCommand.PROFILE_RANKS, "Profile ra&nks …", "", "", "Choose the ranks to record for 5 s"),
    (RunCommand.CLONE, "&Clone", "Ctrl+D", "copy", "Open this run's configuration in Launch"),
    (RunCommand.TAGS, "Name, &tags and note …", "F2", "", "Rename a run, or add tags and a note to runs"),
    (
        RunCommand.REPORT,
        "E&xport a report …",
        "",
        "",
        "Write one HTML or PDF file about the selected runs",
    ),
    (
        RunCommand.PIN,
        PIN,
        "Ctrl+Alt+Up",
        "",
        "Keep the selected runs on top of the list, and undeleted",
    ),
    (RunCommand.ARCHIVE, ARCHIVE, "Ctrl+Alt+Down", "", "Hide the selected runs in the list"),
    (
        RunCommand.BASELINE,
        "&Baseline",
        "Ctrl+Alt+B",
        "",
        "Draw this run under the curves of all others, or no longer",
    ),
    (RunCommand.DELETE, "&Delete …", "Del", "delete", "Move the selected runs to the trash"),
    (RunCommand.FREE_SPACE, "Free space …", "", "", "List the largest runs and checkpoints, and remove some"),
    (RunCommand.TRASH, "De&leted runs …", "", "", "Restore deleted runs, or remove them for good"),
    (
        RunCommand.FOLDER,
        "&Open folder",
        "Ctrl+Shift+O",
        "folder",
        "Show the run's directory in the file manager",
    ),
    (
        RunCommand.FILES,
        "F&iles on its nodes …",
        "Ctrl+Alt+F",
        "",
        "Browse the run's directory on each node, and fetch files from there",
    ),
    (
        RunCommand.TERMINAL,
        "Open a &terminal",
        "Ctrl+Alt+J",
        "",
        "Start a shell in the folder and Python environment of the run, on its node",
    ),
    (RunCommand.COPY_ID, "Copy &id", "Ctrl+Shift+C", "", "Copy the run's id to the clipboard"),
    (RunCommand.FILTER, "&Filter", "Ctrl+Shift+F", "search", "Filter the list of runs"),
)
_MENU = (
    (
        RunCommand.STOP,
        RunCommand.STOP_NOW,
        RunCommand.RESUME,
        RunCommand.RESUME_WITH,
        RunCommand.ATTACH,
        RunCommand.END_WATCH,
        RunCommand.STACKS,
        RunCommand.PROFILE,
        RunCommand.PROFILE_RANKS,
        RunCommand.CLONE,
    ),
    (
        RunCommand.TAGS,
        RunCommand.PIN,
        RunCommand.ARCHIVE,
        RunCommand.BASELINE,
        RunCommand.REPORT,
        RunCommand.FOLDER,
        RunCommand.FILES,
        RunCommand.TERMINAL,
        RunCommand.COPY_ID,
    ),
    (RunCommand.DELETE, RunCommand.TRASH, RunCommand.FREE_SPACE),
)
"""By groups."""
_OF_ANY = (RunCommand.COPY_ID, RunCommand.TAGS, RunCommand.PIN, RunCommand.ARCHIVE, RunCommand.REPORT)
"""Possible for runs in any state."""


class RunActions:
    """Actions created once by the page and enabled by the selection."""

    def __init__(self, theme: Theme, place: QWidget, asked: Callable[[RunCommand], None]) -> None:
        self._theme = theme
        self._by_name: dict[RunCommand, QAction] = {}
        self._icons = {name: drawing for name, _, _, drawing, _ in _ALL if drawing}
        self._tips = {name: f"{tip} ({keys})" if keys else tip for name, _, keys, _, tip in _ALL}
        for name, text, keys, _, tip in _ALL:
            action = QAction(text, place)
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.setToolTip(self._tips[name])
            action.setStatusTip(tip)
            action.triggered.connect(lambda _checked=False, name=name: asked(name))
            place.addAction(action)
            self._by_name[name] = action
        theme.changed.connect(self._draw)
        self._draw()

    def __getitem__(self, name: RunCommand) -> QAction:
        return self._by_name[name]

    @property
    def all(self) -> Sequence[QAction]:
        return tuple(self._by_name.values())

    def enable(self, entries: Sequence[RunEntry], able: Sequence[Abilities]) -> None:
        """Enable each action that any of the runs allows; clone, folder and stop apply to all runs that allow
        them.
        """
        for name in (*_MENU[0][:-1], RunCommand.DELETE):
            self._set_able(name, [each.why_not(name) for each in able])
        alone = len(entries) == 1
        self._by_name[RunCommand.CLONE].setEnabled(alone and not able[0].clone)
        for name in (RunCommand.BASELINE, RunCommand.FOLDER, RunCommand.FILES, RunCommand.TERMINAL):
            self._by_name[name].setEnabled(alone)
        for name in _OF_ANY:
            self._by_name[name].setEnabled(bool(entries))

    def set_marks(self, *, pinned: bool, archived: bool) -> None:
        """Name what Pin and Archive do, given that all selected runs are pinned or archived."""
        self._by_name[RunCommand.PIN].setText(UNPIN if pinned else PIN)
        self._by_name[RunCommand.ARCHIVE].setText(UNARCHIVE if archived else ARCHIVE)

    def _set_able(self, name: RunCommand, why_not: Sequence[str]) -> None:
        """Enable the action if one of the runs allows it; else its tooltip says why none does."""
        action, possible = self._by_name[name], "" in why_not
        action.setEnabled(possible)
        reasons = [] if possible else [f"Not now: {why}" for why in dict.fromkeys(why_not)]
        tip = plain_tip("\n".join((self._tips[name], *reasons))) if reasons else self._tips[name]
        if action.toolTip() != tip:
            action.setToolTip(plain_tip(tip))

    def menu(self, parent: QWidget) -> QMenu:
        """Create a context menu that deletes itself."""
        menu = QMenu(parent)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        for number, group in enumerate(_MENU):
            if number:
                menu.addSeparator()
            for name in group:
                menu.addAction(self._by_name[name])
        return menu

    def _draw(self) -> None:
        for name, drawing in self._icons.items():
            self._by_name[name].setIcon(icon(drawing, self._theme.palette))
