"""Captures of CUDA graphs by other threads, which a reading of torch's flight recorder could spoil."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_DRIVER = "libcuda.so.1"
_THREAD_LOCAL = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL of cuda.h."""


def spare_captures() -> bool:
    """Let no CUDA call of this thread spoil a capture by another thread; return whether that is certain.

    A reading of the recorder queries the events of collectives that are not over. While any thread captures a
    graph in CUDA's default mode (global), such a query of any thread in that mode fails, and the capture with
    it. A thread in the mode "thread-local" does not interfere with the captures of others: see
    cuThreadExchangeStreamCaptureMode in the CUDA driver API. Costs some microseconds; tested without a GPU
    only.
    """
    try:
        if not sys.modules["torch.cuda"].is_initialized():
            return True
    except (KeyError, AttributeError):  # not imported, or only half
        return True
    try:
        # only if the program has loaded it; ROCm has another one
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return True
    with contextlib.suppress(AttributeError):  # older than CUDA 10.1
        error: int = driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_THREAD_LOCAL)))
        return error == 0
    return False
