"""How far each node's copy of the code is, as bars in a run's header."""

from dataclasses import replace

from pytestqt.qtbot import QtBot

from support.values.run_entries import live_view, over_view, run_id
from torchdeck.runs.links import UP, LinkState
from torchdeck.runs.run_state import RunState
from torchdeck_app.runs.page.header import RunHeader
from torchdeck_app.runs.page.node_links import MOST, CodeBars
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.theme.theme import Theme

MIB = 1 << 20


def sent(node: str, mib: int, whole: int = 120) -> LinkState:
    return LinkState(node, UP, since=1.0, code_sent=mib * MIB, code_size=whole * MIB)


def test_each_node_has_a_bar_that_says_what_it_shows(qtbot: QtBot) -> None:
    shown = CodeBars()
    qtbot.addWidget(shown)
    assert shown.isHidden()
    links = [sent("a", 30), sent("b", 120)]
    shown.show_sent(links)
    assert shown.isHidden(), "code that is sent at once makes nothing jump"
    qtbot.waitUntil(lambda: not shown.isHidden())
    assert [bar.value() / bar.maximum() for bar in shown.bars] == [0.25, 1.0]
    assert [bar.accessibleName() for bar in shown.bars] == ["Code sent to node a", "Code sent to node b"]
    assert shown.bars[0].accessibleDescription() == "30.0 MiB of 120.0 MiB"
    assert "31,457,280 of 125,829,120 bytes" in shown.bars[0].toolTip()
    shown.show_sent([sent("b", 120)])
    assert [bar.accessibleName() for bar in shown.bars] == ["Code sent to node b"]
    shown.show_sent([])
    assert shown.isHidden()


def test_many_nodes_share_one(qtbot: QtBot) -> None:
    shown = CodeBars()
    qtbot.addWidget(shown)
    shown.show_sent([sent(f"n{number}", 60) for number in range(MOST + 1)])
    qtbot.waitUntil(lambda: not shown.isHidden())
    assert [bar.value() / bar.maximum() for bar in shown.bars] == [0.5]
    assert shown.bars[0].accessibleName() == f"Code sent to {MOST + 1} nodes"


def test_they_are_there_as_long_as_code_is_sent(qtbot: QtBot, theme: Theme) -> None:
    """Whether ranks wait for it, or a node comes back to those that train."""
    header = RunHeader(theme)
    qtbot.addWidget(header)
    header.resize(900, 200)
    header.show()
    preparing = replace(live_view(run_id(1)), controller_alive=True, state=RunState.PREPARING)
    header.show_run(RunSeen(preparing, None, links=(sent("b", 30),), sent_code=(sent("b", 30),)), ())
    qtbot.waitUntil(header.code.isVisible)
    header.show_run(RunSeen(preparing, None, links=(LinkState("b", UP),)), ())
    assert not header.code.isVisible()
    header.show_run(RunSeen(over_view(run_id(1)), None, sent_code=(sent("b", 30),)), ())
    assert not header.code.isVisible()
