"""Imports without looks for garbage in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imports_that_stay() -> Iterator[None]:
    """Python's collector rests meanwhile, and never looks at what there is by then.

    An import of torch makes some hundred thousand objects, none of them garbage; looking through all of them
    again and again, as their number grows, takes a quarter of its time, and 0.1 s at each full look later on.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
