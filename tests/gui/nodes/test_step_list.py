"""What came of trying a node out, step by step."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from torchdeck_app.nodes.editing.step_list import StepList
from torchdeck_app.nodes.editing.steps import NAMES, Step
from torchdeck_app.theme.theme import Theme


def test_the_step_under_way_is_told_from_those_that_wait(theme: Theme, qtbot: QtBot) -> None:
    """While it is tried one is looked at; none before, and none once it is over."""
    steps = StepList(theme)
    qtbot.addWidget(steps)

    def under_way() -> list[str]:
        named = [sign.accessibleName() for sign in steps._signs]
        return [name.partition(":")[0] for name in named if name.endswith("being looked at")]

    assert under_way() == []
    steps.begin("Trying it out …")
    assert under_way() == [NAMES[0]]
    steps.show_step(Step(0, "ok", "It answers."))
    assert under_way() == [NAMES[1]]
    steps.show_step(Step(1, "failed", "It is not known."))
    steps.end()
    assert under_way() == []
    steps.begin("Trying it out …")
    steps.clear()
    assert under_way() == []
