"""The window opens, shows its places, and closes without a word."""

from pathlib import Path

from support.gui.desktop import Desktop


def test_the_window_opens_and_its_places_are_a_click_away(
    screen: Desktop, tmp_path: Path, pictures: Path
) -> None:
    with screen.window(tmp_path) as window:
        for place, shows in (
            ("Runs", "No runs yet"),
            ("Nodes", "This machine"),
            ("Launch", "What do you want to run?"),
        ):
            window.click(place, "QToolButton")
            window.wait(shows)
            screen.screenshot(pictures / f"{place}.png")
        assert window.said == ""
