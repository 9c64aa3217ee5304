"""A training on another host that Torchdeck did not start, watched from here."""

import signal
from collections.abc import Callable
from pathlib import Path

from support.hosts.hosts_run import HostsRun
from support.training.by_hand import PLAIN, by_hand, reached
from support.waiting import wait_until
from torchdeck.runs.follower import read_run


def test_a_folder_on_a_node_is_watched(across: Callable[..., HostsRun], tmp_path: Path) -> None:
    """The watcher runs on the node; what it finds is here, and ends there when the watch ends."""
    hosts = across(1)
    with by_hand(tmp_path / "work", PLAIN, "--max_steps", "10000"):
        with hosts.command.start("watch", f"node1:{tmp_path / 'work'}") as front:
            run = hosts.command.the_run()
            assert reached(run, 20).loss is not None
            wait_until(lambda: read_run(run).checkpoint, 60, "a checkpoint in the list")
            front.send_signal(signal.SIGINT)
            output, _ = front.communicate(timeout=60)
        assert front.returncode == 130, output
    hosts.wait_empty()
