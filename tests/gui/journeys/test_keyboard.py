"""Everything by keyboard alone: every place, menu, entry and dialog, and a way to every control."""

from pathlib import Path

from support.desktop import Desktop, Seen, Window
from support.metrics import write_rows
from support.run_homes import add_run

RUN_FILE = """\
# mine
[run]
recipe = "byte-gpt"
[model]
layers = 2
[limits]
memory = "off"
"""
SHEETS = ("Keyboard shortcuts", "About Torchdeck")
"""Entries that only show something."""
LEADS = ("Find …",)
"""Entries that ask in the window itself."""
PLACES = {"Launch": "What to run", "Runs": "Plot of Loss", "Nodes": "This machine"}
"""Each with what is seen in it."""
ACTS = (
    "New run …",
    "Launch",
    "Check",
    "Open folder",
    "Close window",
    "Delete",
    "Clone",
    "Resume",
    "Stop",
    "Stop now",
)
"""Entries that start something, are journeys of their own, or leave the place."""
DIALOGS = ("Dialog", "ShortcutSheet", "MessageBox", "Chooser", "CommandPalette")
"""How classes of what opens beside or over the window end."""
MOST = 90
"""Presses of Tab until the first control has to come again."""


def dialogs(window: Window) -> list[Seen]:
    return [seen for seen in window.look() if seen.type.endswith(DIALOGS)]


def menus(window: Window) -> list[list[Seen]]:
    """What is in each menu of the bar, from the first."""
    window.key("alt+f")
    found = [other_menu(window, "")]
    while True:
        window.key("Right")
        entries = other_menu(window, found[-1][0].text)
        if entries[0].text == found[0][0].text:
            window.key("Escape", "Escape")
            return found
        found.append(entries)


def other_menu(window: Window, before: str) -> list[Seen]:
    """The open menu, once it is not that which begins with `before`."""

    def entries() -> list[Seen]:
        seen = entries_of(window)
        return seen if seen and seen[0].text != before else []

    return window.wait_until(entries, "the next menu")


def choose(window: Window, menu: int, entries: list[str], wanted: str) -> None:
    """Go to an entry with the arrows, and press Enter."""
    window.key("alt+f", *["Right"] * menu)
    window.wait_until(lambda: wanted in texts(window), f"the menu of {wanted}")
    window.key(*["Down"] * (entries.index(wanted) + 1))
    for _ in range(2 * len(entries)):
        if next((entry.text for entry in entries_of(window) if entry.focused), "") == wanted:
            window.key("Return")
            window.wait_until(lambda: not entries_of(window), f"{wanted} to be chosen")
            return
        window.key("Up")  # it has passed over what cannot be chosen
    raise AssertionError(f"no way to {wanted} by keyboard: {entries}")


def texts(window: Window) -> list[str]:
    return [entry.text for entry in entries_of(window)]


def entries_of(window: Window) -> list[Seen]:
    """Of the open menu."""
    return window.look(kind="Entry")


def close_dialogs(window: Window) -> None:
    """Escape from all that is open."""

    def are_gone() -> bool:
        found = dialogs(window)
        if found:
            window.key("Escape")
        return not found

    window.wait_until(are_gone, f"Escape to close {[seen.type for seen in dialogs(window)]}")


def walk(window: Window) -> list[Seen]:
    """What has the focus, one after the other, until it comes round."""
    found: list[Seen] = []
    for _ in range(MOST):
        window.key("Tab")
        now = window.focus()
        assert now is not None
        if any(now.type == seen.type and now.name == seen.name and now.rect == seen.rect for seen in found):
            return found
        found.append(now)
    raise AssertionError(f"Tab does not come round: {found}")


def test_every_place_entry_and_dialog_by_keyboard(
    screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path
) -> None:
    write_rows(add_run(torchdeck_home, 1).root, [(step, {"loss": 3.0 - step / 100}) for step in range(100)])
    (tmp_path / "run.toml").write_text(RUN_FILE)
    (torchdeck_home / "nodes.toml").write_text('[nodes.away]\naddress = "127.0.0.1"\nport = 1\n')
    tried: set[str] = set()
    with screen.window(tmp_path, "run.toml") as window:
        for number, (place, shows) in enumerate(PLACES.items(), 1):
            window.key(f"ctrl+{number}")
            if place == "Runs":
                window.wait_until(lambda: window.look(kind="Row"), "the runs")
                window.key("Down", "Return")
            window.wait(shows)
            window.settle()
            unnamed = [seen for seen in walk(window) if not (seen.name or seen.text)]
            assert not unnamed, f"{place} has controls without a name"
            for at, entries in enumerate(menus(window)):
                for entry in entries:
                    if entry.text in tried or entry.text in ACTS or not entry.enabled:
                        continue
                    tried.add(entry.text)
                    choose(window, at, [each.text for each in entries], entry.text)
                    if entry.text in SHEETS or (entry.text.endswith("…") and entry.text not in LEADS):
                        window.wait_until(lambda: dialogs(window), f"{entry.text} to open something")
                        screen.screenshot(pictures / f"{entry.text.strip(' …')}.png")
                    close_dialogs(window)
                    window.key(f"ctrl+{number}")
        assert window.said == ""
