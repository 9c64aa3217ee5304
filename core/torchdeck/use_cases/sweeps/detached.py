"""A driver that outlives the terminal: `python -m torchdeck.use_cases.sweeps.detached SWEEP`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.layout import HOME_VARIABLE
from torchdeck.contract.refusal import Refusal
from torchdeck.sweeps.sweep_layout import SweepLayout

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess


def start_driver(layout: SweepLayout) -> DetachedProcess:
    """Start a driver of a sweep in a session of its own; its output goes to a file of the sweep.

    It prompts for nothing: nodes must be reachable with keys or the keyring.

    Raises:
        Refusal: it cannot be started.
    """
    from torchdeck.agent.processes.detached_process import start_detached

    # -P: a folder named torchdeck in the working directory must not shadow this package
    argv = [sys.executable, "-P", "-m", "torchdeck.use_cases.sweeps.detached", str(layout.root)]
    try:
        return start_detached(argv, {**os.environ, HOME_VARIABLE: str(layout.home.root)}, layout.log)
    except OSError as error:
        raise Refusal("the driver of the sweep cannot be started", error) from error


def main(folder: str) -> int:
    """Drive the sweep in `folder`; the exit code is 0 unless it was refused."""
    from torchdeck.sweeps.sweep_text import run_sentence
    from torchdeck.use_cases.sweeps.driver import SweepDriver
    from torchdeck.use_cases.ui import QuietUi

    layout = SweepLayout(Path(folder))

    def note(text: str) -> None:
        print(text, flush=True)

    try:
        SweepDriver(
            layout,
            QuietUi(note=note),
            lambda state, key: note(run_sentence(state, state.trial(key.trial), key.seed)),
        ).drive()
    except (Refusal, OSError) as error:
        note(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
