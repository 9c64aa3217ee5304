"""Receive the code of a run on standard input: `python -I -B .../agent/snapshots/__main__.py --home DIR`."""

from __future__ import annotations

import argparse
import os
import select
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # -I leaves the shipped folder out

from torchdeck.agent.snapshots.receive import Receiver
from torchdeck.contract.frames import FrameError, FrameReader

READ = 1 << 20
SILENCE = 120.0
"""Seconds without a byte after which the other end is gone."""


def main(arguments: list[str]) -> int:
    """Receive one run's code; 0 once the copy is there, 1 with a sentence where it cannot be."""
    parser = argparse.ArgumentParser(prog="snapshots", description=__doc__)
    parser.add_argument("--home", required=True, type=Path)
    parser.add_argument("--silence", type=float, default=SILENCE)
    options = parser.parse_args(arguments)
    os.umask(0o077)
    receiver, frames = Receiver(options.home), FrameReader()
    while not receiver.over:
        if not select.select([0], [], [], options.silence)[0]:
            return _say(f"no code came for {options.silence:g} s; what has arrived is kept")
        data = os.read(0, READ)
        if not data:
            return _say("the transfer of code was cut; what has arrived is kept")
        try:
            for frame in frames.feed(data):
                for answer in receiver.handle(frame):
                    sys.stdout.buffer.write(answer)
        except FrameError as error:
            return _say(str(error))
        sys.stdout.buffer.flush()
    return _say(receiver.why) if receiver.why else 0


def _say(why: str) -> int:
    print(why, file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
