"""Transfers of code between a run's directory and another home, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from support.values.machines import plan
from torchdeck.agent.snapshots.receive import Receiver
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.frames import FrameReader
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.code.capture import capture
from torchdeck.launching.code.send import Progress, Sender
from torchdeck.launching.code.user_code import read_user_code


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """`folder` with these files in it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def code_of(folder: Path, home: Path, script: str = "train.py") -> CodeTree:
    """What a run of `script` in `folder` gets a copy of."""
    config = config_from_dict({"run": {"script": script}}, folder)
    tree, _ = read_user_code(config, folder, home)
    assert tree is not None
    return tree


def captured(folder: Path, home: Path, run: str = "one") -> RunLayout:
    """A run directory in `home` with a copy of `folder`."""
    layout = RunLayout(home / "runs" / run)
    layout.root.mkdir(parents=True)
    capture(layout, plan(code=code_of(folder, home)), home)
    return layout


def content_below(folder: Path) -> dict[str, bytes | str]:
    """Names → content of files, target of links."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def transfer(
    layout: RunLayout,
    home: Path,
    limit: int | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> tuple[int, Receiver]:
    """Send the run's code to a node with `home`, in this process.

    Args:
        layout: the run's.
        home: the node's.
        limit: bytes after which the stream to the node is cut, in mid-frame too.
        on_progress: called with how far it is.

    Returns:
        Bytes that went to the node, and its end.
    """
    sender, receiver, frames, back = Sender(layout, on_progress), Receiver(home), FrameReader(), FrameReader()
    waiting = list(sender.begin())
    sent = 0
    while waiting and not (sender.over or receiver.over):
        data = waiting.pop(0)
        part = data if limit is None else data[: limit - sent]
        sent += len(part)
        for frame in frames.feed(part):
            for answer in receiver.handle(frame):
                for told in back.feed(answer):
                    waiting += sender.handle(told)
        if len(part) < len(data):
            break
    return sent, receiver
