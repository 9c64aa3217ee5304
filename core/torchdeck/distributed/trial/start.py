"""Becomes torchrun, after saying that torch could be imported."""

from __future__ import annotations

import gc
import json
import os
import sys

MARK = "torchdeck-trial "


def say(stage: str, **more: object) -> None:
    """A line to whoever reads, in one piece."""
    os.write(1, f"{MARK}{json.dumps({'stage': stage, **more})}\n".encode())


if __name__ == "__main__":
    gc.disable()  # takes a fifth of the import; nothing of Torchdeck is here that would do it
    from torch.distributed.run import main

    gc.enable()
    say("torchrun")
    main(sys.argv[1:])
