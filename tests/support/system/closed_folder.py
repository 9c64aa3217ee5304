"""A folder that this process may not enter, also where it is run by the superuser."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def closed_folder() -> Iterator[Path]:
    """The folder, in one that anybody may look into; the superuser is no one meanwhile."""
    with tempfile.TemporaryDirectory() as around:
        Path(around).chmod(0o755)
        closed = Path(around, "closed")
        closed.mkdir(mode=0o000)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(NOBODY)
            yield closed
        finally:
            os.seteuid(user)
            closed.chmod(0o700)
