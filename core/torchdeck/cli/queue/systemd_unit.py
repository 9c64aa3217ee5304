"""A systemd user unit that serves the queue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchdeck.contract.layout import HOME_VARIABLE

UNIT_NAME = "torchdeck-queue.service"


def unit_text(home: Path, command: Sequence[str]) -> str:
    """Return the unit for the queue of `home`; `command` serves it, and begins with an absolute path."""
    # KillMode=process: runs outlive their server; only ExecStart knows variables, so only there $ is escaped
    comments = (
        f"# systemctl --user enable --now {UNIT_NAME}, once this file is ~/.config/systemd/user/{UNIT_NAME}.",
        "# `loginctl enable-linger` lets it run while you are not logged in.",
    )
    return f"""\
{comments[0]}
{comments[1]}
[Unit]
Description=Torchdeck queue of {_escaped(str(home))}

[Service]
Type=exec
Environment={_quoted(f"{HOME_VARIABLE}={home}")}
ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in command)}
KillMode=process
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """Return a word of a unit in quotes; specifiers in it do not take effect."""
    text = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
