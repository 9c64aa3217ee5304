"""The processes under torchrun."""

import os
import signal
import subprocess

import pytest

from support.waiting import wait_until
from torchdeck.agent.processes.ending import TorchrunTree
from torchdeck.contract.processes import ProcessIdentity

pytestmark = pytest.mark.processes


def test_what_was_seen_is_known_after_torchruns_end() -> None:
    """A child that no one is the parent of any more; what ended while torchrun lived is forgotten."""
    with subprocess.Popen(["sh", "-c", "sleep 61 & sleep 62 & wait"], start_new_session=True) as process:
        try:
            root, tree = ProcessIdentity.of(process.pid), TorchrunTree()
            assert root is not None
            was_due = tree.is_due

            def both() -> set[ProcessIdentity]:
                tree.look(root)
                return tree.processes if len(tree.processes) == 2 else set()

            first, second = wait_until(both, 10, "both children")
            assert (was_due, tree.is_due) == (True, False)
            assert first.send(signal.SIGKILL)
            wait_until(lambda: not first.is_alive(), 10, "the first to end")
            tree.look(root)
            assert tree.processes == {second}
            process.kill()
            process.wait(10)
            tree.look(root)
            tree.look(None)
            assert tree.processes == {second}
            assert second.is_alive()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
