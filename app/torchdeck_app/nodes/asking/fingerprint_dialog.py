"""Shows the key of a host that nobody knows yet, and asks whether it is the right one."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QVBoxLayout, QWidget

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.panel import GRID, label

_MEANS = (
    "If it differs, somebody may be in between. Once trusted it is written down, and a host that shows "
    "another key is refused."
)


class FingerprintDialog(QDialog):
    """Accepted is trusted; the safe answer is the one that Enter and Esc give."""

    def __init__(
        self, node: str, host: str, key_type: str, fingerprint: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Is this the right host?")
        self.host = label(host)
        self.key_type = label(key_type)
        self.fingerprint = label(fingerprint, wrap=True)
        kind = key_type.removeprefix("ssh-").partition("-")[0]  # of ecdsa the curve follows
        self.command = label(f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub", wrap=True)
        named = {
            "Host": self.host,
            "Key type": self.key_type,
            "SHA-256": self.fingerprint,
            "Command": self.command,
        }
        for name, shown in named.items():
            shown.setFont(font(Type.MONO))
            shown.setAccessibleName(f"{name}: {shown.text()}")
            shown.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
            )
        facts = QFormLayout()
        facts.setSpacing(GRID)
        for name, shown in (("Host", self.host), ("Key type", self.key_type), ("SHA-256", self.fingerprint)):
            facts.addRow(label(name, role="secondary"), shown)
        buttons = QDialogButtonBox()
        self.trust_button = buttons.addButton("&Trust", QDialogButtonBox.ButtonRole.AcceptRole)
        self.refuse_button = buttons.addButton("&Don't", QDialogButtonBox.ButtonRole.RejectRole)
        self.trust_button.setToolTip("Write the key down, and connect")
        self.refuse_button.setToolTip("Do not connect")
        self.trust_button.setAutoDefault(False)
        self.refuse_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(label(f"The host key of {node} is not known yet", Type.HEADING, wrap=True))
        column.addLayout(facts)
        compare = QVBoxLayout()
        compare.setSpacing(GRID // 2)
        compare.addWidget(
            label("Compare it with what the host itself says, as this prints it there:", wrap=True)
        )
        compare.addWidget(self.command)
        column.addLayout(compare)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(buttons)
        self.setMinimumWidth(64 * GRID)
        self.refuse_button.setFocus()
