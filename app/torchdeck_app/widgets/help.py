"""Pages of the documentation that help with an error: a link to one, and what opens it in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QWidget

from torchdeck.contract.refusal import Refusal
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.panel import GRID, label

if TYPE_CHECKING:
    from torchdeck.use_cases.docs import DocsServer

SCHEME = "torchdeck-docs"
"""Scheme of the addresses of pages, such as `torchdeck-docs:checkpoints#resume`."""


def page_of(error: object) -> str:
    """Return the page that helps with an error; empty if it names none."""
    return next((part.page for part in error.parts() if part.page), "") if isinstance(error, Refusal) else ""


def open_page(page: str = "index") -> None:
    """Open a page of the documentation in the browser; default: its first page."""
    QDesktopServices.openUrl(QUrl(f"{SCHEME}:{page}"))


class HelpLink(QToolButton):
    """Button that opens a page of the documentation; hidden without one."""

    def __init__(self, page: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.page = ""
        self.setText("Help")
        self.setAutoRaise(True)
        self.setProperty("role", "link")
        self.clicked.connect(lambda: open_page(self.page))
        self._name(page)
        if not page:
            self.hide()

    def set_page(self, page: str) -> None:
        """Set the page; empty: none."""
        self._name(page)
        self.setVisible(bool(page))

    def _name(self, page: str) -> None:
        self.page = page
        self.setAccessibleName(f"Help: {page}")
        self.setToolTip(f"Open the documentation: {page}")


class ErrorLine(QWidget):
    """Error as text, with a link to the page that helps; hidden without one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = label("", role="error", wrap=True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.link = HelpLink()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._text, 1)
        row.addWidget(self.link, 0, Qt.AlignmentFlag.AlignTop)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.hide()

    def text(self) -> str:
        """Return the error; empty if there is none."""
        return self._text.text()

    def say(self, text: str, page: str = "", role: str = "error") -> None:
        """Show an error, and the page that helps; empty: none.

        Args:
            text: the error, or what came of an operation.
            page: the page that helps.
            role: `secondary` if nothing is wrong.
        """
        before = self._text.text()
        self._text.setText(text)
        if self._text.property("role") != role:
            self._text.setProperty("role", role)
            self._text.style().polish(self._text)
        self.link.set_page(page if text else "")
        if text != before:
            announce(self, text, urgent=role == "error")
        self.setVisible(bool(text))


class HelpPages(QObject):
    """Opens pages: serves the installed documentation while the window is open."""

    failed = Signal(str)
    """Emitted with the reason why a page cannot be opened."""

    def __init__(self, operations: Operations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._server: DocsServer | None = None
        QDesktopServices.setUrlHandler(SCHEME, self, "open")  # type: ignore[arg-type]  # PySide takes a str only

    @Slot(QUrl)
    def open(self, url: QUrl) -> None:
        """Open the page of an address; Qt calls it for all addresses of the scheme."""
        wanted = url.toString().removeprefix(f"{SCHEME}:")

        def address(_progress: object, _cancel: object) -> str:
            from torchdeck.use_cases.docs import DocsServer  # a web server, not needed for the first paint

            self._server = self._server or DocsServer()
            return self._server.address(wanted)

        self._operations.run(
            "opening the documentation",
            address,
            done=self._browse,
            failed=lambda error: self.failed.emit(f"The documentation cannot be opened: {error}"),
        )

    def _browse(self, address: str) -> None:
        if not QDesktopServices.openUrl(QUrl(address)):
            self.failed.emit(f"No browser can be started. Open {address} in one.")

    def close(self) -> None:
        """Stop serving."""
        QDesktopServices.unsetUrlHandler(SCHEME)
        if self._server is not None:
            self._server.close()
