"""Everything by keyboard alone: every place, menu, entry and dialog, and a way to every control."""

from pathlib import Path

from support.gui.desktop import Desktop, Seen, Window
from support.values.metrics import write_rows
from support.values.run_homes import add_run

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
PLACES = {"Launch": "What to run", "Runs": "Plots of Loss", "Nodes": "This machine"}
"""Each with what is seen in it."""
ACTS = (
    "New run …",
    "Close run file",
    "Launch",
    "Check",
    "Open folder",
    "Close window",
    "Delete",
    "Clone",
    "Resume",
    "Stop",
    "Stop now",
    "Archive",  # hides the run that the others are about
    "Pin",  # a pinned run is not deleted
    "Documentation",  # opens a browser
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


def choose(window: Window, menu: int, wanted: str) -> None:
    """Go to an entry with the arrows, which pass over what cannot be chosen, and press Enter."""
    window.key("alt+f", *["Right"] * menu)
    window.wait_until(lambda: wanted in texts(window), f"the menu of {wanted}")
    ready = [entry for entry in entries_of(window) if entry.enabled]
    # a menu that was come to by an arrow has its first entry chosen already
    chosen = next((at for at, entry in enumerate(ready) if entry.focused), -1)
    left = [entry.text for entry in ready].index(wanted) - chosen
    if left:
        window.key(*["Down"] * left)
    window.wait_until(
        lambda: any(entry.focused and entry.text == wanted for entry in entries_of(window)),
        f"the arrows to lead to {wanted}",
    )
    window.key("Return")
    window.wait_until(lambda: not entries_of(window), f"{wanted} to be chosen")


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
    before = window.focus()
    for _ in range(MOST):
        before = tab(window, before)
        if any(is_same(before, seen) for seen in found):
            return found
        found.append(before)
    raise AssertionError(f"Tab does not come round: {found}")


def tab(window: Window, before: Seen | None) -> Seen:
    """What has the focus after Tab, which `before` had."""
    window.key("Tab")

    def moved() -> Seen | None:
        now = window.focus()
        return None if now is None or (before is not None and is_same(now, before)) else now

    found = window.wait_until(moved, f"Tab to lead on from {before}")
    assert found is not None
    return found


def is_same(one: Seen, other: Seen) -> bool:
    return (one.type, one.name, one.rect) == (other.type, other.name, other.rect)


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
                    choose(window, at, entry.text)
                    if entry.text in SHEETS or (entry.text.endswith("…") and entry.text not in LEADS):
                        window.wait_until(lambda: dialogs(window), f"{entry.text} to open something")
                        screen.screenshot(pictures / f"{entry.text.strip(' …')}.png")
                    close_dialogs(window)
                    window.key(f"ctrl+{number}")
        assert window.said == ""
