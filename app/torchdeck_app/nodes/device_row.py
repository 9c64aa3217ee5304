"""One GPU of a machine: its memory as a bar, its utilization and its owner."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.nodes.activity import DeviceActivity
from torchdeck.quantities import size
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import UsageChart
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import label

_OWNER, _NARROW_OWNER = 200, 120
"""Width of a run's name in pixels."""


class MemoryBar(QWidget):
    """Bar that shows how full a device is."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._share: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_share(self, share: float | None, tip: str) -> None:
        """Fill this share of the bar; None means unknown."""
        self._share = share
        self.setToolTip(plain_tip(tip))
        self.setAccessibleDescription(tip)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(160, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        palette = self._theme.palette
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(palette.raised))
        painter.drawRoundedRect(QRectF(self.rect()), 3, 3)
        if self._share:
            painter.setBrush(QColor(palette.series[0]))
            width = self.width() * min(1.0, self._share)
            painter.drawRoundedRect(QRectF(0, 0, width, self.height()), 3, 3)
        painter.end()


class DeviceRow(QWidget):
    """Row with everything about one device."""

    run_asked = Signal(str)
    """Emitted with the id of the run that owns the device when its name is clicked."""

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, narrow: bool = False) -> None:
        super().__init__(parent)
        self._narrow = narrow
        self._name = ElidedLabel()
        self._memory = label("", role="secondary")
        self._bar = MemoryBar(theme)
        self._facts = label("", role="secondary")
        self._chart = UsageChart(theme, "busy" if narrow else "utilisation", highest=100.0)
        self._owner = QPushButton()
        self._owner.setFlat(True)
        kept = self._owner.sizePolicy()
        kept.setRetainSizeWhenHidden(True)  # keep the row height when runs come and go
        self._owner.setSizePolicy(kept)
        self._run_id = ""
        self._owner.clicked.connect(lambda: self.run_asked.emit(self._run_id))
        top = QHBoxLayout()
        top.addWidget(self._name, 1)
        top.addWidget(self._memory)
        below = QHBoxLayout()
        below.addWidget(self._facts)
        below.addStretch(1)
        below.addWidget(self._owner)
        left = QVBoxLayout()
        left.setSpacing(4)
        left.addLayout(top)
        left.addWidget(self._bar)
        left.addLayout(below)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        row.addLayout(left, 3 if narrow else 2)
        row.addWidget(self._chart, 1)

    def show_device(self, now: DeviceActivity) -> None:
        """Show the device's current state."""
        total = now.device.memory_bytes
        name = now.device.name.removeprefix("NVIDIA ") if self._narrow else now.device.name
        self._name.setText(f"{now.device.index}  {name}")
        self._name.setToolTip(plain_tip(now.device.uuid))
        used = now.memory_used
        known = used is not None and total > 0
        between = "/" if self._narrow else " of "
        self._memory.setText(
            f"{size(used)}{between}{size(total)}" if known and used is not None else size(total)
        )
        share = used / total if known and used is not None else None
        self._bar.show_share(share, "not told" if used is None else f"{used:,.0f} of {total:,} bytes in use")
        facts = []
        if now.temperature is not None:
            facts.append(f"{now.temperature:.0f} °C")
        if now.power is not None:
            facts.append(f"{now.power:.0f} W")
        self._facts.setText("  ".join(facts) or "temperature and power are not reported")
        if now.utilisation is not None:
            self._chart.add(now.utilisation, f"{now.utilisation:.0f} %")
        self._run_id = "" if now.owner is None else now.owner.run_id
        self._owner.setVisible(now.owner is not None)
        if now.owner is not None:
            self._owner.setText(self._shortened(now.owner.name))
            self._owner.setAccessibleName(f"Open the run {now.owner.name}")
            said = f"Open the run {now.owner.name}, {now.owner.run_id}"
            self._owner.setToolTip(plain_tip(said))

    def _shortened(self, name: str) -> str:
        """Return the name as a button can show it: shortened and without characters read as a mnemonic."""
        short = self._owner.fontMetrics().elidedText(
            name, Qt.TextElideMode.ElideMiddle, _NARROW_OWNER if self._narrow else _OWNER
        )
        return short.replace("&", "&&")
