"""A node of the book is dragged into a run and out of it by a real pointer."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gui.desktop import Desktop, Seen, Window, desktop

RUN_FILE = """\
# mine
[run]
recipe = "byte-gpt"
[training]
steps = 10
[limits]
memory = "off"
[[cluster.nodes]]
name = "m[0-1]"
gpus = 2
memory = "80GiB"
"""


@pytest.fixture
def screen() -> Iterator[Desktop]:
    with desktop() as made:
        yield made


@pytest.fixture(autouse=True)
def person(tmp_path: Path, torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one node in the book, and nothing else."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    torchdeck_home.mkdir(mode=0o700, exist_ok=True)
    (torchdeck_home / "nodes.toml").write_text('[nodes.far]\naddress = "192.0.2.1"\n')


def drag(screen: Desktop, window: Window, start: tuple[int, int], end: tuple[int, int], marked: str) -> None:
    """Drag from `start` to `end`, and let go there once the board shows that it would be `marked`."""
    screen.do("mousemove", *map(str, start))
    screen.do("mousedown", "1")
    ways = [((start[0] + end[0]) // 2, (start[1] + end[1]) // 2), (end[0] + 3, end[1]), end]

    def is_marked() -> bool:
        for x, y in ways:  # a drag begins with a move, and is told of where it goes by the next ones
            screen.do("mousemove", str(x), str(y))
        return [seen.text for seen in window.look(kind="Mark")] == [marked]

    window.wait_until(is_marked, f"the board to show {marked!r}", 60)
    screen.do("mouseup", "1")


def node(window: Window, name: str) -> Seen:
    """The heading of a node on the board."""

    def found() -> list[Seen]:
        return [seen for seen in window.look(kind="Node") if seen.text == name]

    return window.wait_until(found, f"node {name} on the board", 60)[0]


def written(window: Window) -> dict[str, list[str]]:
    """[distributed] as the editor has it."""
    found: dict[str, list[str]] = tomllib.loads(editor(window).text).get("distributed", {})
    return found


def editor(window: Window) -> Seen:
    """Where the run file's text is."""
    (found,) = (seen for seen in window.look() if seen.text.startswith("# mine"))
    return found


def test_a_node_is_dragged_into_a_run_and_another_out_of_it(screen: Desktop, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN_FILE)
    with screen.window(tmp_path, "run.toml") as window:
        window.wait("Nodes of the node inventory", seconds=60)
        window.key("ctrl+t")
        window.wait_until(lambda: window.look("# mine"), "the run file's text")
        window.settle()
        chip = next(seen for seen in window.look(kind="Row") if seen.text == "far")
        left, top, width, height = node(window, "m1").rect
        drag(screen, window, chip.centre, (left + 9 * width // 10, top + height // 2), "before 2")
        window.wait_until(lambda: written(window).get("nodes") == ["m[0-1]", "far"], "the node to be there")
        window.key("ctrl+z")
        window.wait_until(lambda: not written(window), "the node to be gone again")
        window.wait_until(lambda: len(window.look(kind="Node")) == 2, "the board to be as before")
        window.settle()
        # over the text, which takes nothing
        drag(screen, window, node(window, "m0").centre, editor(window).centre, "off 0")
        window.wait_until(lambda: written(window).get("nodes") == ["m1"], "the first node to be gone")
        assert window.said == ""
