"""The chapter on failed runs, and what is recognised of it in logs."""

import re
from pathlib import Path

import pytest

from support.values.histories import controller_journal, ended, event, failure, finished, running_run
from support.values.made_runs import make_run
from torchdeck.runs.failure import read_failure
from torchdeck.runs.failures.chapter import chapter, recognise
from torchdeck.runs.follower import read_run

LINES = {
    "Out of memory on a GPU": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "Out of memory on the machine": "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. "
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1125899906842624 bytes.",
    "Shared memory is full": "RuntimeError: DataLoader worker (pid 812) is killed by signal: Bus error.",
    "A data loader process ended": "DataLoader worker (pid 8) is killed by signal: Killed.",
    "A rank was killed": "ended by SIGKILL: another process killed it; memory had not run out (18.6 of "
    "23.5 GiB were available)",
    "The disk has no inodes left": "OSError: [Errno 28] No space left on device: 'x' (no inodes left on the "
    "disk of /data)",
    "The disk is full": "OSError: [Errno 28] No space left on device: '/data/x'",
    "Loss or gradients are not finite": "RecipeError: the loss in step 12 is nan on rank 1: lower",
    "Gradients or weights differ across ranks": "RuntimeError: [1]: params[0] in this process with sizes "
    "[3, 2] appears not to match sizes of the same param in process 0.",
    "Unused parameters": "RuntimeError: Expected to have finished reduction in the "
    "prior iteration before starting a new one.",
    "Ranks sent tensors of different sizes": "what():  [enforce fail at /gloo/transport/tcp/pair.cc:456] "
    "op.preamble.length <= op.nbytes. 2732 vs 684. Received data size doesn't match expected size. Is there "
    "a distributed collective mismatch in your code?",
    "A port is taken": "RuntimeError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "An agent of Torchdeck failed": "the agent on alpha ended by an error of its own, RecursionError: "
    "maximum recursion depth exceeded (channel.py, line 207)",
    "Connection refused": "[W socket.cpp:460] [c10d] The client socket has failed to connect to [h]:29500 "
    "(errno: 111 - Connection refused).",
    "Timeout while waiting for peers": "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 3000ms for "
    "recv operation to complete",
    "NCCL failed": "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled "
    "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
    "A GPU failed": "torch.AcceleratorError: CUDA error: device-side assert triggered",
    "A package is missing": "ModuleNotFoundError: No module named 'deepspeed'",
    "A checkpoint does not fit": "CheckpointError: loading checkpoint /c failed: it is of another model: …",
    "A rank crashed in native code": "ended by SIGSEGV (crashed in native code) in decode (data.py:7)",
    "Another rank is gone": "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:2260.",
}
"""Section → a line as torch, gloo, NCCL and our ranks print it."""


def test_every_section_has_a_line_that_it_recognises() -> None:
    """Sections and examples are the same; each line leads to its own section, not to an earlier one."""
    assert [advice.title for advice in chapter()] == list(LINES)
    for title, line in LINES.items():
        found = recognise([("rank 1", ["step 3 loss 2.5", line])])
        assert found is not None, title
        assert (found.advice.title, found.where) == (title, "rank 1")
        assert line.startswith(found.line[:100])


def test_sections_say_what_to_do() -> None:
    """Each has signs and a text that names something to change or to look at."""
    for advice in chapter():
        assert advice.signs, advice.title
        assert re.search(r"`[^`]+`|log", advice.text), advice.title
        assert "<!--" not in advice.text


def test_a_cause_comes_before_its_consequence() -> None:
    """Whoever says it, what is likelier to be the cause is quoted."""
    found = recognise(
        [("rank 0", [LINES["Another rank is gone"]]), ("rank 1", [LINES["Out of memory on the machine"]])]
    )
    assert found is not None
    assert (found.where, found.advice.title) == ("rank 1", "Out of memory on the machine")


@pytest.mark.parametrize(
    "line",
    [
        "step 100 loss 0.0123 lr 0.001",
        "I refused the connection between loss and accuracy",
        "KeyError: 'memory'",
        "reading /data/nccl-tests/shard-00",
        "ValueError: rank 3 differs from rank 2 in style",
    ],
)
def test_ordinary_lines_are_not_recognised(line: str) -> None:
    """What a script prints of its own is no sign."""
    assert recognise([("rank 0", [line])]) is None


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
            "A data loader process ended",
        ),
        (
            "RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly",
            "A data loader process ended",
        ),
        (
            "DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
            "A data loader process ended",
        ),
        ("DataLoader worker (pid 7) is killed by signal: Bus error.", "Shared memory is full"),
        ("This might be caused by insufficient shared memory (shm).", "Shared memory is full"),
    ],
)
def test_a_loaders_process_that_was_killed_is_no_full_shared_memory(line: str, title: str) -> None:
    """Only a bus error is a sign of that."""
    found = recognise([("rank 0", [line])])
    assert found is not None
    assert found.advice.title == title


def test_a_bus_error_counts_though_the_loader_names_it_last() -> None:
    """torch says both, one line after the other."""
    lines = [
        "ERROR: Unexpected bus error in worker. This might be caused by insufficient shared memory (shm)."
    ]
    found = recognise(
        [("rank 0", [*lines, "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"])]
    )
    assert found is not None
    assert found.advice.title == "Shared memory is full"


@pytest.mark.parametrize("frames", [0, 200])
def test_an_abort_by_gloo_does_not_blame_the_aborted_rank(tmp_path: Path, frames: int) -> None:
    """Native code is not at fault, though the exit says so, and the cause may be another rank.

    The message is found before faulthandler's stacks of any length.
    """
    abort = failure(0, code=None, signal="SIGABRT", message="ended by SIGABRT (crashed in native code)")
    layout = make_run(
        tmp_path,
        controller_journal(),
        [*running_run(), ended(1, "failed", {**abort, "traceback": ""}), finished("FAILED")],
    )
    said = [
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        f"  {LINES['Ranks sent tensors of different sizes']}",
        "Fatal Python error: Aborted",
        "",
        "Thread 0x00007f0000000001 (most recent call first):",
        *(f'  File "/code/train.py", line {line} in step' for line in range(frames)),
    ]
    stderr = layout.attempt(1).rank(0).stderr
    stderr.parent.mkdir(parents=True, exist_ok=True)
    stderr.write_text("\n".join(said))
    report = read_failure(layout, read_run(layout))
    assert report is not None
    assert report.advice is not None
    assert (report.advice.advice.title, report.advice.where) == (
        "Ranks sent tensors of different sizes",
        "rank 0",
    )
    assert "either side may be the cause" in report.advice.advice.text


def test_the_card_of_a_run_whose_agent_failed_names_it(tmp_path: Path) -> None:
    """Not "Another rank is gone", which is what its ranks say."""
    reset = failure(message="RuntimeError: Connection reset by peer", traceback="")
    layout = make_run(
        tmp_path,
        controller_journal(),
        [
            *running_run(),
            event("agent_failed", 102.5, error="RecursionError: too deep (channel.py, line 207)"),
            ended(1, "failed", reset),
            finished("FAILED", why="rank 1 failed first: RuntimeError: Connection reset by peer"),
        ],
    )
    report = read_failure(layout, read_run(layout))
    assert report is not None
    assert report.headline.startswith("the agent on localhost ended by an error of its own")
    assert report.advice is not None
    assert report.advice.advice.title == "An agent of Torchdeck failed"
