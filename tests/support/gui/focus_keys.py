"""Going to a control by Tab."""

from __future__ import annotations

from support.gui.desktop import Seen, Window

MOST = 120
"""Presses that lead once around any page."""


def tab_to(window: Window, name: str) -> Seen:
    """Press Tab until what is called `name`, or has that text, has the keyboard."""
    met = []
    for _ in range(MOST):
        now = window.focus()
        if now is not None and name in (now.name, now.text):
            return now
        met.append(now)
        window.key("Tab")
        window.wait_until(lambda now=now: window.focus() != now, f"Tab to lead on from {now}")  # type: ignore[misc]
    raise AssertionError(f"Tab does not lead to {name!r}, but to {[each and each.name for each in met]}")
