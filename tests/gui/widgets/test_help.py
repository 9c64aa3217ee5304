"""Links to pages of the documentation, and what opens these."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from torchdeck.contract.refusal import Refusal, SeveralRefusals
from torchdeck.use_cases import docs
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.help import ErrorLine, HelpLink, HelpPages, page_of


class Browser(QObject):
    """Gets the addresses in the place of the user's browser."""

    opened = Signal(str)

    @Slot(QUrl)
    def open(self, url: QUrl) -> None:
        self.opened.emit(url.toString())


@pytest.fixture
def browser() -> Iterator[Browser]:
    made = Browser()
    QDesktopServices.setUrlHandler("http", made, "open")  # type: ignore[arg-type]  # PySide takes a str only
    yield made
    QDesktopServices.unsetUrlHandler("http")


@pytest.fixture
def help_pages(operations: Operations) -> Iterator[HelpPages]:
    made = HelpPages(operations)
    yield made
    made.close()


def test_a_link_opens_its_page_in_the_browser(
    qtbot: QtBot, browser: Browser, help_pages: HelpPages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("overview")
    (tmp_path / "checkpoints.html").write_text("how to resume")
    monkeypatch.setattr(docs, "installed_site", lambda: tmp_path)
    link = HelpLink("checkpoints#resume")
    qtbot.addWidget(link)
    assert not link.isVisible(), "a link without a parent is no window"
    link.show()
    with qtbot.waitSignal(browser.opened) as opened:
        QTest.mouseClick(link, Qt.MouseButton.LeftButton)
    (address,) = opened.args
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("/checkpoints.html#resume")
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - an address of this machine
        assert answer.read() == b"how to resume"


def test_it_says_why_there_is_no_documentation(
    qtbot: QtBot, help_pages: HelpPages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "installed_site", lambda: tmp_path)
    with qtbot.waitSignal(help_pages.failed) as failed:
        help_pages.open(QUrl("torchdeck-docs:index"))
    assert "the documentation is not built" in failed.args[0]


def test_an_error_has_a_link_if_it_names_a_page(qtbot: QtBot) -> None:
    line = ErrorLine()
    qtbot.addWidget(line)
    line.say("wrong", page_of(Refusal("wrong", fix="mend it", page="recipes#trust")))
    assert line.text() == "wrong"
    assert line.link.page == "recipes#trust"
    assert not line.link.isHidden()
    line.say("wrong")
    assert line.link.isHidden()
    line.say("")
    assert line.isHidden()


def test_the_page_of_an_error() -> None:
    assert page_of(ValueError("x")) == page_of(Refusal("x")) == ""
    assert page_of(SeveralRefusals([Refusal("x"), Refusal("y", page="machines#ssh")])) == "machines#ssh"
