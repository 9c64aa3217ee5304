"""A process that is a copy of this one, so that what is loaded here need not be loaded again."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable

from torchdeck.agent.process_title import set_process_title
from torchdeck.agent.processes.detached_process import DetachedProcess

CRASHED = 70
"""Exit code of a copy that was ended by an exception; EX_SOFTWARE of sysexits.h, none of our own."""
DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)


def has_one_thread() -> bool:
    """Whether this process may be copied: another thread could hold a lock that the copy would wait for."""
    return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - their number is all that is wanted


def forked(
    run: Callable[[], int], name: str, standard_input: int, output: int, title: str = ""
) -> DetachedProcess:
    """Begin `run` in a copy of this process, which must have one thread alone.

    The copy has a session of its own, and nothing open but the two descriptors.

    Args:
        run: all that it does; what it gives is the copy's exit code.
        name: what `ps -o comm` shows.
        standard_input: descriptor that the copy reads.
        output: descriptor of its standard output and error.
        title: what `ps -f` shows; default: the arguments of this process.

    Raises:
        OSError: there can be no more processes.
        RuntimeError: this process has more threads than one.
    """
    if not has_one_thread():
        raise RuntimeError("a process with several threads cannot be copied: one may hold a lock")
    _flush()
    pid = os.fork()
    if pid:
        return DetachedProcess(pid)
    code = CRASHED
    try:
        _leave(standard_input, output)
        set_process_title(title, name)
        code = run()
    except SystemExit as end:
        code = _code_of(end)
    except BaseException:  # noqa: BLE001 - nothing of it may go on in what this process was a copy of
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            _flush()
        os._exit(code)


def _code_of(end: SystemExit) -> int:
    """As Python's own end has it."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a shell may have closed it
            stream.flush()


def _leave(standard_input: int, output: int) -> None:
    """Have nothing in common any more with the process that this is a copy of."""
    os.setsid()
    for number in DEFAULT_SIGNALS:  # what a shell had ignored, ranks would inherit
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor, place in ((standard_input, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, place)
    gc.freeze()  # what a copied object would close when it is collected may be another's by then
    for found in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is wanted
        if int(found) > 2:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(found))
