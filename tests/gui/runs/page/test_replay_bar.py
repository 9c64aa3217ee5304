"""Seeing a run again as it was at a moment."""

from pytestqt.qtbot import QtBot

from torchdeck_app.runs.page.replay_bar import ReplayBar
from torchdeck_app.theme.theme import Theme


def test_the_slider_says_until_when(qtbot: QtBot, theme: Theme) -> None:
    bar = ReplayBar(theme)
    qtbot.addWidget(bar)
    bar.set_range(1000.0, 2000.0)
    assert bar.has_range
    with qtbot.waitSignal(bar.moved) as caught:
        bar.slider.setValue(250)
    assert caught.args == [1250.0]
    with qtbot.waitSignal(bar.moved) as caught:
        bar.slider.setValue(1000)
    assert caught.args == [None], "the end is all of it"


def test_playing_begins_at_the_start_moves_on_and_ends(qtbot: QtBot, theme: Theme) -> None:
    bar = ReplayBar(theme)
    qtbot.addWidget(bar)
    bar.set_range(0.0, 100.0)
    moments: list[float | None] = []
    bar.moved.connect(moments.append)
    bar.play.setChecked(True)
    qtbot.waitUntil(lambda: len(moments) > 2)
    assert moments[0] == 0.0
    bar.slider.setValue(999)
    qtbot.waitUntil(lambda: not bar.play.isChecked())
    assert moments[-1] is None


def test_a_run_that_goes_on_again_is_shown_as_it_is(qtbot: QtBot, theme: Theme) -> None:
    bar = ReplayBar(theme)
    qtbot.addWidget(bar)
    bar.set_range(0.0, 100.0)
    bar.slider.setValue(10)
    with qtbot.waitSignal(bar.moved) as caught:
        bar.set_range(0.0, None)
    assert caught.args == [None]
    assert not bar.has_range
