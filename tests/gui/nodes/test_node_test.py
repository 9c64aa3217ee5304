"""What came of trying a node out, step by step."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from torchdeck.use_cases.nodes.node_trial import NAMES, Step
from torchdeck_app.nodes.node_dialog import StepList
from torchdeck_app.theme.theme import Theme


def test_the_step_under_way_is_told_from_those_that_wait(theme: Theme, qtbot: QtBot) -> None:
    """While it is tried one is looked at; none before, and none once it is over."""
    steps = StepList(theme)
    qtbot.addWidget(steps)

    def under_way() -> list[str]:
        named = [sign.accessibleName() for sign in steps._signs]
        return [name.partition(":")[0] for name in named if name.endswith("testing")]

    assert under_way() == []
    steps.begin("Testing …")
    assert under_way() == [NAMES[0]]
    steps.show_step(Step(0, "ok", "It answers."))
    assert under_way() == [NAMES[1]]
    steps.show_step(Step(1, "failed", "It is not known."))
    steps.end()
    assert under_way() == []
    steps.begin("Testing …")
    steps.clear()
    assert under_way() == []


def test_a_long_fingerprint_is_seen_whole(theme: Theme, qtbot: QtBot) -> None:
    steps = StepList(theme)
    qtbot.addWidget(steps)
    steps.resize(280, 600)
    steps.show()
    steps.begin("Testing …")
    steps.show_step(Step(1, "warning", f"Its key is SHA256:{'W' * 43}", asks=True))
    (shown,) = [text for text in steps._sentences if not text.isHidden()]
    qtbot.waitUntil(lambda: shown.height() >= 3 * shown.fontMetrics().lineSpacing())
    assert shown.document().idealWidth() <= shown.viewport().width()


def test_the_button_that_goes_gives_the_focus_to_nothing_that_is_pressed(theme: Theme, qtbot: QtBot) -> None:
    steps = StepList(theme)
    qtbot.addWidget(steps)
    steps.show()
    steps.show_step(Step(1, "warning", "It is not known.", asks=True))
    steps.ask_button.setFocus()
    steps.begin("Testing …")
    assert steps.focusWidget() is steps


def test_a_step_that_failed_links_to_the_page_that_helps(theme: Theme, qtbot: QtBot) -> None:
    steps = StepList(theme)
    qtbot.addWidget(steps)
    steps.begin("Testing …")
    assert steps.help.isHidden()
    steps.show_step(Step(0, "failed", "It does not answer", page="machines#ssh"))
    assert steps.help.page == "machines#ssh"
    assert not steps.help.isHidden()
    steps.clear()
    assert steps.help.isHidden()
