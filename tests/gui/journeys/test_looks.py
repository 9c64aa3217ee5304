"""How it looks: 1280 × 720 and twice that with 2 × scaling, light and dark; nothing lies off the screen."""

from pathlib import Path

import pytest

from support.gui.desktop import Desktop, Window

LONG = 90.0


def look_around(window: Window, on: Desktop, pictures: Path, size: tuple[int, int]) -> None:
    """Go through what a first user sees, with a picture of each."""
    window.click("Open cluster")
    window.wait("Memory: ", seconds=LONG)
    on.screenshot(pictures / "launch.png")
    window.click("Show the run file as TOML")
    on.screenshot(pictures / "text.png")
    window.key("ctrl+k")
    window.type("mem")
    window.wait("mem", "QLineEdit")
    on.screenshot(pictures / "palette.png")
    window.key("Escape")
    for place, shows in (("Runs", "No runs yet"), ("Nodes", "This machine")):
        window.click(place, "QToolButton")
        window.wait(shows)
        on.screenshot(pictures / f"{place}.png")
    lost = [
        seen
        for seen in window.look()
        if seen.rect[0] < 0 or seen.rect[1] < 0 or seen.rect[0] + seen.rect[2] > size[0] + 2
    ]
    assert not [
        seen for seen in lost if seen.type in ("MainWindow", "StatusBar", "QPushButton", "QToolButton")
    ]
    assert window.said == ""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.soak)])
def test_a_small_screen(
    screen: Desktop, tmp_path: Path, pictures: Path, scheme: str, torchdeck_home: Path
) -> None:
    (torchdeck_home / "settings.json").write_text(f'{{"version": 1, "theme": "{scheme}"}}')
    with screen.window(tmp_path) as window:
        look_around(window, screen, pictures, (1280, 720))


def test_a_dense_screen(large_screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path) -> None:
    """Dark, too."""
    (torchdeck_home / "settings.json").write_text('{"version": 1, "theme": "dark"}')
    with large_screen.window(tmp_path, QT_SCALE_FACTOR="2") as window:
        look_around(window, large_screen, pictures, (2560, 1440))
