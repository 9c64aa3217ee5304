"""The window starts the controllers of runs again that it sees lose theirs."""

import os
import signal
from pathlib import Path

from pytestqt.qtbot import QtBot

from support.agents.agent_run import make_plan, script
from support.agents.controlled_run import controller_events, new_run, nothing_left, wait_for_state
from support.waiting import wait_until
from torchdeck.launching.launcher import start_controller
from torchdeck_app.bridge.run_list import RunListPoller


def test_a_controller_that_was_killed_is_started_again(
    qtbot: QtBot, torchdeck_home: Path, tmp_path: Path
) -> None:
    with nothing_left(torchdeck_home):
        layout = new_run(make_plan(script(tmp_path, "import time; time.sleep(600)"), tmp_path))
        first = start_controller(layout)
        wait_for_state(layout, "RUNNING")
        poller = RunListPoller(torchdeck_home, interval=0.1)
        poller.start()
        try:
            qtbot.waitUntil(
                lambda: any(
                    entry.view is not None and entry.view.controller_alive for entry in poller.seen.entries
                )
            )
            os.kill(first.pid, signal.SIGKILL)
            first.wait(20)
            wait_until(
                lambda: len(controller_events(layout, "controller_started")) == 2, 60, "another controller"
            )
        finally:
            assert poller.stop(10)
