"""Actions of the window itself, independent of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QWidget

from torchdeck_app.settings.user_settings import THEMES, SettingsStore

ANSWER_KEYS = "Ctrl+Shift+N"
"""Act on the latest notification."""


def shortcut_text(action: QAction) -> str:
    """Return its shortcuts as printed on keys, such as `Ctrl+K`; empty without one."""
    return " or ".join(
        keys.toString(QKeySequence.SequenceFormat.NativeText)
        for keys in action.shortcuts()
        if not keys.isEmpty()
    )


def plain_text(action: QAction) -> str:
    """Return its text without mnemonic and ellipsis."""
    return without_mnemonic(action.text()).removesuffix("…").strip()


def without_mnemonic(text: str) -> str:
    """Return a text without the `&` before its mnemonic letter."""
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&")


def make_action(
    text: str, keys: str | tuple[str, ...], hint: str, call: Callable[[], object], parent: QWidget
) -> QAction:
    """Create an action of the window; its tooltip is `hint` with the shortcut."""
    action = QAction(text, parent)
    action.setShortcuts([QKeySequence(one) for one in ((keys,) if isinstance(keys, str) else keys) if one])
    # without a hint the tooltip is the text, in which Qt could detect markup
    pressed = shortcut_text(action)
    action.setToolTip(f"{hint} ({pressed})" if pressed else hint)
    action.triggered.connect(lambda _checked: call())
    return action


class ThemeActions(QObject):
    """Actions for light, dark or system colours: one of three is checked."""

    def __init__(self, store: SettingsStore, parent: QWidget) -> None:
        super().__init__(parent)
        self._store = store
        self._group = QActionGroup(parent)
        self._actions: dict[str, QAction] = {}
        for mode, name in THEMES.items():
            action = make_action(
                f"Colours: {name.lower()}",
                "",
                "Colours of the window",
                lambda mode=mode: store.change(theme=mode),  # type: ignore[misc]  # mypy infers no default
                parent,
            )
            action.setCheckable(True)
            self._group.addAction(action)
            self._actions[mode] = action
        store.changed.connect(self._show)
        self._show()

    @property
    def actions(self) -> Iterable[QAction]:
        return self._actions.values()

    def _show(self) -> None:
        self._actions[self._store.settings.theme].setChecked(True)
