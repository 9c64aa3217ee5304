"""A run file with three mistakes: all are said at once, and nothing starts before."""

from pathlib import Path

from support.gui.desktop import Desktop, Seen
from torchdeck.runs.registry import RunRegistry

MISTAKEN = """\
# my first run
[run]
recipe = "byte-gtp"

[training]
steps = -5
microbatch = 8

[distributed]
stratgy = "ddp"
"""


def is_on(seen: Seen | None, kind: str) -> bool:
    """Whether the keyboard is on something of that class."""
    return seen is not None and seen.type == kind


def test_three_mistakes_are_listed_and_lead_to_their_lines(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(MISTAKEN)
    with screen.window(tmp_path, "run.toml") as window:
        header = window.wait("3 problems")
        screen.screenshot(pictures / "form.png")
        window.click("Show the run file as TOML")
        screen.screenshot(pictures / "text.png")
        rows = window.wait_until(lambda: window.look(kind="Row"), "the list of problems")
        said = " ".join(row.text for row in rows)
        assert all(word in said for word in ("run.recipe", "training.steps", "stratgy")), (header, said)
        window.key("ctrl+Return")
        window.wait("Launch blocked: 3 problems, see the list of problems")
        screen.screenshot(pictures / "refused.png")
        window.wait_until(
            lambda: (listed := window.focus()) is not None and listed.name == "List of problems",
            "the list to have the keyboard",
        )
        window.key("Down", "Return")
        window.wait_until(lambda: is_on(window.focus(), "CodeArea"), "the line of the second problem")
        assert not runs.ids()
        assert window.said == ""
