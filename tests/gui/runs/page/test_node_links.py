"""How nodes of a run are reached, in its header; and when it can be attached to."""

import time
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from support.values.run_entries import live_view, over_view, progress, run_id
from torchdeck.launching.taking_over import wants_controller
from torchdeck.runs import reasons
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, REFUSED, STATES, UP, Links, LinkState
from torchdeck.runs.run_state import RunState
from torchdeck_app.runs.abilities import RunCommand, abilities
from torchdeck_app.runs.page.activity_texts import doing, facts
from torchdeck_app.runs.page.header import RunHeader
from torchdeck_app.runs.page.node_links import LOOKS, MOST, NodeLinks
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.theme.theme import Theme

LIVE = replace(live_view(run_id(1)), controller_alive=True)
SENT = LinkState("b", UP, since=1.0, code_sent=34 << 20, code_size=120 << 20)


def test_every_state_has_a_sign_and_a_word_of_its_own() -> None:
    assert set(LOOKS) == set(STATES)
    assert len({look.sign for look in LOOKS.values()}) == len({look.word for look in LOOKS.values()}) == 5


def test_each_node_is_named_with_its_link(qtbot: QtBot, theme: Theme) -> None:
    """What a node is called is no markup, and the tooltip says why."""
    shown = NodeLinks(theme)
    qtbot.addWidget(shown)
    links = [
        LinkState("<b>a", UP, since=1.0),
        LinkState("b", LOST, since=1.0, why="no route"),
        LinkState("c", NEEDS_LOGIN, since=1.0),
        replace(SENT, node="d"),
    ]
    shown.show_links(links, is_followed=True)
    assert shown.words == "● <b>a connected   ? b link lost   ! c needs login   ● d 28 % of the code"
    assert "<b>" not in shown.text()
    assert "no route" in shown.toolTip()
    assert "34.0 MiB of 120.0 MiB" in shown.toolTip()
    shown.show_links(links, is_followed=False)
    assert shown.words.count("not followed") == 4
    shown.show_links([], is_followed=True)
    assert shown.isHidden()


def test_many_nodes_are_counted(qtbot: QtBot, theme: Theme) -> None:
    shown = NodeLinks(theme)
    qtbot.addWidget(shown)
    up = [LinkState(f"n{number}", UP) for number in range(MOST)]
    shown.show_links([*up, LinkState("x", REFUSED)], is_followed=True)
    assert shown.words == f"● {MOST} nodes connected   ✕ 1 node refused"
    assert shown.toolTip().count("connected") == MOST


def test_code_under_way_is_what_the_run_does() -> None:
    """While ranks may wait for it; a node that comes back gets it while the others train."""
    beginning = replace(LIVE, state=RunState.PREPARING)
    assert doing(beginning, [SENT]) == "sending code to node b: 34.0 MiB of 120.0 MiB"
    assert doing(LIVE, [SENT]) == doing(LIVE)
    assert doing(over_view(run_id(1)), [SENT]) == "all ranks finished"


@pytest.mark.parametrize(
    ("alive", "state", "age", "attempt", "wanted"),
    [
        (False, UP, 100.0, 1, True),
        (True, UP, 0.0, 1, False),
        (True, NEEDS_LOGIN, 0.0, 1, True),
        (True, NEEDS_LOGIN, 100.0, 1, False),
        (True, NEEDS_LOGIN, 0.0, None, False),
        (True, CONNECTING, 0.0, 1, False),
    ],
)
def test_who_wants_a_controller(
    *, alive: bool, state: str, age: float, attempt: int | None, wanted: bool
) -> None:
    """Where there is none; or one that lacks a login now, which did not only just begin the gang."""
    view = replace(LIVE, controller_alive=alive, attempt=attempt)
    links = Links(1000.0 - age, {"b": LinkState("b", state)})
    assert wants_controller(view, links, 1000.0) is wanted
    assert not wants_controller(replace(view, state=RunState.SUCCEEDED), links, 1000.0)


def test_a_window_says_what_to_press(qtbot: QtBot, theme: Theme) -> None:
    """Once for all nodes; what else is to be said of the run stays."""
    header = RunHeader(theme)
    qtbot.addWidget(header)
    told = tuple(f"node {node}: {reasons.UNFOLLOWED}" for node in "abc")
    seen = RunSeen(replace(LIVE, controller_alive=False, warnings=("one is torn", *told)), None)
    header.show_run(replace(seen, is_left_alone=True), ())
    said = "This run is not followed here. Attach follows it, and asks for the logins of its nodes."
    assert header.warnings.splitlines() == ["one is torn", said]
    header.show_run(seen, ())
    assert header.warnings.count("torchdeck runs attach") == 3


def test_metrics_that_do_not_match_their_checksums_are_named(qtbot: QtBot, theme: Theme) -> None:
    header = RunHeader(theme)
    qtbot.addWidget(header)
    header.show_run(RunSeen(LIVE, None, damaged_metrics=("rows 1 to 512 do not match",)), ())
    assert header.warnings.splitlines() == [*LIVE.warnings, "rows 1 to 512 do not match"]


def test_the_button_is_there_where_it_is_of_use(qtbot: QtBot, theme: Theme) -> None:
    header = RunHeader(theme)
    qtbot.addWidget(header)
    header.resize(900, 120)
    header.show()
    button = header.buttons[RunCommand.ATTACH]
    header.show_run(RunSeen(LIVE, None), ())
    assert not button.isVisible()
    alone = RunSeen(replace(LIVE, controller_alive=False), None, is_left_alone=True)
    header.show_run(alone, ())
    assert button.isVisible()
    assert button.isEnabled()
    header.show_run(alone, ("attach",))
    assert button.isVisible()
    assert not button.isEnabled()
    assert header.doing_now == "attaching: connecting to its nodes"
    assert abilities(over_view(run_id(1)), is_left_alone=True).attach == "the run has succeeded"


def test_a_run_that_nobody_follows_is_not_said_to_run(qtbot: QtBot, theme: Theme) -> None:
    """Its state as a word and a colour, when it was last heard from, and the button that asks its nodes."""
    header = RunHeader(theme)
    qtbot.addWidget(header)
    header.resize(900, 160)
    header.show()
    view = replace(LIVE, controller_alive=False, followed_until=time.time() - 200, started=time.time() - 500)
    link = LinkState("b", UP, since=1.0, heard=time.time() - 200)
    header.show_run(RunSeen(view, progress(332, 2000, eta=60.0), links=(link,), is_left_alone=True), ())
    assert header.state_word == "unknown"
    assert header.doing_now == "running at the last report, 3 min ago"
    assert "b: not followed from here, last heard from 3 min ago" in header.links.toolTip()
    assert header.buttons[RunCommand.ATTACH].isVisible()
    said = facts(view, progress(332, 2000, eta=60.0, tokens_per_s=5.0), time.time())
    assert said.startswith("last seen step 332 / 2,000  ·  5 min 0 s until then")
    header.show_run(RunSeen(LIVE, progress(340, 2000)), ())
    assert header.state_word == "running"


def test_the_age_of_what_is_known_goes_on_though_nothing_is_heard(qtbot: QtBot, theme: Theme) -> None:
    """No look at its files finds anything new."""
    header = RunHeader(theme)
    qtbot.addWidget(header)
    header.show()
    view = replace(LIVE, controller_alive=False, followed_until=time.time() - 7)
    header.show_run(RunSeen(view, None), ())
    first = header.doing_now
    assert "at the last report" in first
    qtbot.waitUntil(lambda: header.doing_now not in (first, ""))
    assert "at the last report" in header.doing_now
