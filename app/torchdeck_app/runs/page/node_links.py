"""Connection state of each node of a run, and how much of the code it has."""

from __future__ import annotations

import html
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QSizePolicy, QWidget

from torchdeck.quantities import duration, size
from torchdeck.runs import reasons
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, REFUSED, UP, LinkState
from torchdeck.shown_text import shown
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, SteadyLabel, plain_tip
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.state_badge import Look

MOST = 4
"""Maximum number of nodes shown by name; beyond it, nodes are counted per state."""
LOOKS = {
    UP: Look("●", "connected", "good"),
    CONNECTING: Look("◷", "connecting", "quiet"),
    LOST: Look("?", "link lost", "warn"),
    NEEDS_LOGIN: Look("!", "needs login", "warn"),
    REFUSED: Look("✕", "refused", "bad"),
}
ALONE = Look("○", "not followed", "quiet")
"""Look of a node that is not followed because there is no controller."""
_NARROWEST_NAME = 12
"""Minimum letters shown of a node's name."""


class NodeLinks(QLabel):
    """Line with symbol, name and state of each node's link; hidden for a run on this machine only."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[tuple[str, Look], ...] = ()
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)  # between nodes only
        self.hide()
        theme.changed.connect(self._draw)

    @property
    def words(self) -> str:
        """Return the text without its colours."""
        return "   ".join(f"{look.sign} {name} {look.word}" for name, look in self._shown)

    def show_links(self, links: Sequence[LinkState], *, is_followed: bool) -> None:
        """Show how each node is connected; `is_followed`: there is a controller that knows."""
        found = [(link, look_of(link, is_followed=is_followed)) for link in links]
        shown = _counted(found) if len(found) > MOST else tuple((link.node, look) for link, look in found)
        self.setVisible(bool(shown))
        lines = [_line(link, look, time.time()) for link, look in found]
        self.setToolTip(plain_tip("\n".join(lines)))
        if shown != self._shown:
            self._shown = shown
            self._draw()

    def _draw(self) -> None:
        palette = self._theme.palette
        parts = []
        for name, look in self._shown:
            word = f'<span style="color: {palette.secondary};">{_unbroken(look.word)}</span>'
            sign = f'<span style="color: {look.rgb(palette)};">{look.sign}</span>'
            short = name if len(name) <= _NARROWEST_NAME else f"{name[: _NARROWEST_NAME - 1]}…"
            parts.append(f"{sign}&nbsp;{_unbroken(short)}&nbsp;{word}")
        self.setText("&nbsp;&nbsp; ".join(parts))
        self.setAccessibleName(f"Links to nodes: {self.words}" if self._shown else "")


def _unbroken(text: str) -> str:
    return html.escape(shown(text)).replace(" ", "&nbsp;").replace("-", "&#8209;")


def look_of(link: LinkState, *, is_followed: bool) -> Look:
    """Return the look of one node's link, with the progress of its code transfer if one is running."""
    if not is_followed:
        return ALONE
    look = LOOKS[link.state]
    if link.is_sent_code:
        return look._replace(word=f"{100 * (link.code_sent or 0) // (link.code_size or 1)} % of the code")
    return look


def _counted(found: Sequence[tuple[LinkState, Look]]) -> tuple[tuple[str, Look], ...]:
    """Return the number of nodes per state, with `14 nodes` in place of the name."""
    looks = Counter(ALONE if look == ALONE else LOOKS[link.state] for link, look in found)
    return tuple((f"{count} node{'' if count == 1 else 's'}", look) for look, count in looks.most_common())


def _line(link: LinkState, look: Look, now: float) -> str:
    """Return the tooltip line of one node."""
    if look == ALONE:
        return f"{link.node}: {look.word} from here{reasons.heard_of(link, now)}"
    if link.is_sent_code:
        return reasons.code_to(link)
    begun = reasons.link_since(link)
    since = "" if begun is None else f" for {duration(now - begun)}"
    behind = f", {size(link.behind)} not here yet" if link.behind else ""
    return f"{link.node}: {LOOKS[link.state].word}{since}{behind}{f' ({link.why})' if link.why else ''}"


# Progress bars for sending a run's code to each node.

_STEPS = 1000
"""Steps of each bar."""
_SOON = 500
"""Milliseconds before bars appear: a short transfer would otherwise move the layout twice."""
_NAME_WIDTH = 18 * GRID


class _Sent(NamedTuple):
    """Progress of one bar; both values in bytes."""

    name: str
    sent: int
    whole: int


class CodeBars(QWidget):
    """Bar for each node that is being sent code, in order; one for all if there are many. Else hidden."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Code being sent")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GRID)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._links: Sequence[LinkState] = ()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON)
        self._soon.timeout.connect(self._draw)
        self._rows: list[tuple[ElidedLabel, QProgressBar, SteadyLabel]] = []
        self.hide()

    @property
    def bars(self) -> tuple[QProgressBar, ...]:
        """Return the visible bars."""
        return tuple(bar for _, bar, _ in self._rows if not bar.isHidden())

    def show_sent(self, links: Sequence[LinkState]) -> None:
        """Show the progress of each of `links`; hide if there is none."""
        if links and not self._links:
            self._soon.start()
        elif not links:
            self._soon.stop()
        self._links = links
        self._draw()

    def _draw(self) -> None:
        shown = [] if self._soon.isActive() else _shown(self._links)
        while len(self._rows) < len(shown):
            self._rows.append(self._add_row())
        for at, row in enumerate(self._rows):
            for widget in row:
                widget.setVisible(at < len(shown))
        for (name, bar, amount), sent in zip(self._rows, shown, strict=False):
            name.setText(sent.name)
            words = f"{size(sent.sent)} of {size(sent.whole)}"
            bar.setValue(_STEPS * min(sent.sent, sent.whole) // sent.whole)
            bar.setAccessibleName(f"Code sent to {sent.name}")
            bar.setAccessibleDescription(words)
            bar.setToolTip(plain_tip(f"{sent.sent:,} of {sent.whole:,} bytes of code sent to {sent.name}"))
            amount.setText(words)
        self.setVisible(bool(shown))

    def _add_row(self) -> tuple[ElidedLabel, QProgressBar, SteadyLabel]:
        name, bar, amount = ElidedLabel(), QProgressBar(), SteadyLabel()
        name.setFixedWidth(_NAME_WIDTH)
        bar.setTextVisible(False)
        bar.setFixedHeight(GRID)
        bar.setRange(0, _STEPS)
        bar.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        amount.setProperty("role", "secondary")
        amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        amount.setFixedWidth(amount.fontMetrics().horizontalAdvance("1023.9 MiB of 1023.9 MiB") + 2)
        at = len(self._rows)
        for column, widget in enumerate((name, bar, amount)):
            self._grid.addWidget(widget, at, column)
        return name, bar, amount


def _shown(links: Sequence[LinkState]) -> list[_Sent]:
    found = [_Sent(f"node {link.node}", link.code_sent or 0, link.code_size or 1) for link in links]
    if len(found) <= MOST:
        return found
    return [_Sent(f"{len(found)} nodes", sum(each.sent for each in found), sum(each.whole for each in found))]
