"""Feed: answers to the newest request, made in a thread."""

import itertools
import threading

from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.background_loop import Feed


class Slow:
    """Answers when it is let, and counts how many answers are made at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.now = self.most = 0
        self.asked: list[str] = []

    def answer(self, request: str) -> str:
        self.asked.append(request)
        self.now += 1
        self.most = max(self.most, self.now)
        assert self.go.wait(20)
        self.now -= 1
        return request.upper()


def answers_of_another(qtbot: QtBot) -> None:
    """Wait until a feed that follows as often has answered ten times: time in which others might have."""
    found: list[object] = []
    feed: Feed[str, object] = Feed("another", lambda _: object(), 0.001)
    feed.answered.connect(found.append)
    feed.ask("a")
    qtbot.waitUntil(lambda: len(found) >= 10)
    assert feed.stop(10)


def test_only_the_newest_request_is_answered(qtbot: QtBot) -> None:
    slow, found = Slow(), list[str]()
    feed: Feed[str, str] = Feed("test", slow.answer, 3600)
    feed.answered.connect(found.append)
    feed.ask("a")
    qtbot.waitUntil(lambda: slow.asked == ["a"])
    feed.ask("b")
    feed.ask("c")
    slow.go.set()
    qtbot.waitUntil(lambda: found[-1:] == ["C"])
    assert slow.asked == ["a", "c"]
    assert feed.stop(10)


def test_what_is_asked_after_a_stop_waits_for_the_answer_under_way(qtbot: QtBot) -> None:
    slow, found = Slow(), list[str]()
    feed: Feed[str, str] = Feed("asked after a stop", slow.answer, 3600)
    feed.answered.connect(found.append)
    feed.ask("a")
    qtbot.waitUntil(lambda: slow.asked == ["a"])
    assert not feed.stop()
    feed.ask("b")
    threads = [thread for thread in threading.enumerate() if thread.name == "asked after a stop"]
    assert len(threads) == 1, "a second thread would have begun by now"
    assert slow.asked == ["a"]
    slow.go.set()
    qtbot.waitUntil(lambda: found == ["B"])
    assert slow.most == 1
    assert feed.stop(10)


def test_a_second_stop_waits_for_the_answer_under_way_too(qtbot: QtBot) -> None:
    slow = Slow()
    feed: Feed[str, str] = Feed("test", slow.answer, 3600)
    feed.ask("a")
    qtbot.waitUntil(lambda: slow.asked == ["a"])
    assert not feed.stop()
    assert not feed.stop()
    slow.go.set()
    assert feed.stop(10)


def test_an_answer_is_told_again_after_a_stop_though_it_is_the_same_object(qtbot: QtBot) -> None:
    found: list[object] = []
    same = object()
    feed: Feed[str, object] = Feed("test", lambda _: same, 0.001)
    feed.answered.connect(found.append)
    feed.ask("a")
    qtbot.waitUntil(lambda: found == [same])
    assert feed.stop(10)
    feed.ask("a")
    qtbot.waitUntil(lambda: found == [same, same])
    assert feed.stop(10)


def test_what_stands_still_is_answered_for_new_requests_only(qtbot: QtBot) -> None:
    answers = itertools.count()
    found: list[int] = []
    feed: Feed[str, int] = Feed("test", lambda _: next(answers), 0.001)
    feed.answered.connect(found.append)
    feed.ask("a")
    qtbot.waitUntil(lambda: len(found) > 2)
    feed.follow(on=False)
    answers_of_another(qtbot)
    feed.follow(on=False)
    before = len(found)
    answers_of_another(qtbot)
    assert len(found) == before
    feed.ask("a")
    qtbot.waitUntil(lambda: len(found) == before + 1)
    feed.follow(on=True)
    qtbot.waitUntil(lambda: len(found) > before + 3)
    assert feed.stop(10)


def test_an_answer_that_fails_is_told_and_the_next_is_tried(qtbot: QtBot) -> None:
    answers = itertools.count()
    found: list[object] = []

    def answer(_: str) -> int:
        if next(answers) == 0:
            raise OSError("gone")
        return 1

    feed: Feed[str, int] = Feed("test", answer, 0.02)
    feed.answered.connect(found.append)
    feed.failed.connect(lambda error: found.append(str(error)))
    feed.ask("a")
    qtbot.waitUntil(lambda: 1 in found)
    assert feed.stop(10)
    assert found in (["gone", 1], [1])
