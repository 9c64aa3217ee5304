"""`torchdeck nodes gpus` by values, and it and `nodes end` beside a stand-in nvidia-smi."""

import io
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fakes.nvidia_smi import fake_nvidia_smi, machine_with_gpus
from support.cli.command import COMMAND
from support.values.gpus import RUN, free_gpu, gpu_now, process_here, process_of
from torchdeck.cli.nodes.gpus import HEADINGS, document, row_of, view
from torchdeck.nodes.gpus.gpu_now import GpuNow, RunHold
from torchdeck.nodes.gpus.gpu_words import all_holder_words, holder_words, until_of, until_words, user_words
from torchdeck.nodes.probe.facts import ProcessEnd
from torchdeck.use_cases.nodes.gpu_watch import GpusSeen
from torchdeck.use_cases.nodes.gpus import EndRefusal, EndRequest, end_words, refuse_end, why_not_endable

NOW = time.mktime((2026, 11, 28, 12, 0, 0, 0, 0, -1))


def cells(gpu: GpuNow, *, limited: bool = False) -> dict[str, str]:
    return dict(zip(HEADINGS, row_of(gpu, NOW, limited=limited), strict=True))


def test_a_row_says_who_holds_a_gpu_until_when() -> None:
    gpu = gpu_now(process_here(run_id=RUN), lease=(RUN, "gpt"), runs={RUN: RunHold("gpt", NOW + 7530)})
    assert cells(gpu) == {
        "NODE": "node-a",
        "GPU": "0",
        "MODEL": "H100 80GB HBM3",
        "STATE": "in use",
        "USE": "93 %",
        "MEMORY": "60.0 GiB of 80.0 GiB",
        "TEMP": "66 °C",
        "POWER": "640 of 700 W",
        "HELD BY": "gpt",
        "USER": "ann",
        "UNTIL": "14:05, in 2 h 6 min",
    }


def test_a_free_gpu_a_slowed_one_and_one_of_a_lost_node_are_told_apart() -> None:
    assert cells(free_gpu())["STATE"] == "free"
    assert cells(gpu_now(process_here(), throttle_reasons=0x44))["STATE"] == "in use, too hot (hardware)"
    assert cells(gpu_now(throttle_reasons=0x44, is_connected=False))["STATE"] == "unknown"
    assert cells(gpu_now())["HELD BY"] == "a process that is not visible"


def test_several_holders_are_counted_and_their_end_is_known_only_if_all_are() -> None:
    run = process_here(1, run_id=RUN, user="ann")
    both = gpu_now(run, process_here(2), runs={RUN: RunHold("gpt", NOW)})
    assert (holder_words(both), user_words(both), until_of(both)) == ("gpt and 1 more", "ann, bob", None)
    assert until_of(free_gpu()) is None


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (-5, "any moment"),
        (30, "12:00, in 30 s"),
        (299, "12:04, in 4 min 59 s"),
        (3600, "13:00, in 1 h 0 min"),
        (90000, "Nov 29 13:00, in 1 d 1 h"),
    ],
)
def test_an_expected_end_is_no_more_precise_than_an_estimate(left: float, words: str) -> None:
    assert until_words(NOW + left, NOW) == words


@pytest.mark.parametrize("width", [40, 80, 120, None])
def test_the_table_fits_and_names_what_it_leaves_out(width: int | None) -> None:
    seen = GpusSeen(
        [gpu_now(process_here(command="python " + "x" * 300)), free_gpu(index=1)], [("b", "b: no")]
    )
    console = Console(file=io.StringIO(), width=width or 1000)
    console.print(view(seen, width, NOW))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line.rstrip()) <= (width or 1000) for line in lines)
    assert ("no room for" in console.file.getvalue()) == (width is not None)
    assert lines[-1].startswith("b: no")


def test_no_gpu_is_said() -> None:
    console = Console(file=io.StringIO())
    console.print(view(GpusSeen([], []), 80, NOW))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "no NVIDIA GPU was found\n"


def test_json_has_every_value_with_its_unit() -> None:
    found = json.loads(json.dumps(document(GpusSeen([gpu_now(process_here(), throttle_reasons=0x24)], []))))
    (gpu,) = found["gpus"]
    assert gpu["throttle_reasons"] == ["power limit", "too hot"]
    assert (gpu["clock_mhz"], gpu["memory_clock_mhz"], gpu["power_limit_w"]) == (1755.0, 2619.0, 700.0)
    assert gpu["processes"][0]["start_ticks"] == 77
    assert gpu["holders"][0]["pid"] == 4321


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"run_id": RUN}, f"Process 4321 belongs to run {RUN}. Stop the run instead."),
        ({"process": None}, "not visible on the node"),
        ({"endable": False}, "Process 4321 belongs to bob. Only bob or root may end it."),
    ],
)
def test_only_own_processes_outside_of_runs_can_be_ended(changes: dict[str, Any], why: str) -> None:
    process = process_of(gpu_now(process_here(**changes)))
    assert why in why_not_endable(process)
    with nullcontext() if not why else pytest.raises(EndRefusal) as refused:
        refuse_end(process)
    if refused is not None and process.run_id:
        assert refused.value.fix == f"`torchdeck runs stop {RUN}`"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (ProcessEnd(outcome="ended"), "Ended process 4321 on node-a."),
        (ProcessEnd(outcome="killed"), "Killed process 4321 on node-a: it ignored SIGTERM."),
        (ProcessEnd(outcome="gone"), "Process 4321 on node-a had already ended."),
        (ProcessEnd(outcome="left", why="it hangs"), "Did not end process 4321 on node-a: it hangs."),
    ],
)
def test_the_result_is_a_sentence(end: ProcessEnd, words: str) -> None:
    process = process_of(gpu_now(process_here()))
    assert end_words(EndRequest("node-a", process), end) == words


@pytest.mark.processes
def test_this_machine_is_listed_and_a_process_without_a_gpu_is_not_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        fake_nvidia_smi(tmp_path, machine_with_gpus(f"GPU-0, {sleeper.pid}, 50000"))
        env = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "TORCHDECK_HOME": str(tmp_path / "h"),
        }

        def torchdeck(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*COMMAND, "nodes", *words], capture_output=True, text=True, timeout=60, env=env, check=False
            )

        listed = torchdeck("gpus", "--json")
        asked = torchdeck("end", "localhost", str(sleeper.pid))
        refused = torchdeck("end", "localhost", str(sleeper.pid), "--yes")
        unknown = torchdeck("end", "localhost", "1", "--yes")
        assert sleeper.poll() is None
        sleeper.kill()
    assert [gpu["state"] for gpu in json.loads(listed.stdout)["gpus"]] == ["in use", "free"]
    assert (listed.returncode, asked.returncode, refused.returncode, unknown.returncode) == (0, 3, 3, 3)
    assert "--yes ends it" in asked.stderr
    assert f"Command: {sys.executable} -S -c input()" in refused.stderr
    assert "does not use a GPU" in refused.stdout
    assert "no process 1 uses a GPU of localhost" in unknown.stderr


def test_commands_are_named_by_program_and_script() -> None:
    gpu = gpu_now(process_here(command="/env/bin/python /data/bob/train.py --data /data"))
    assert holder_words(gpu) == "python train.py --data /data"
    gpu = gpu_now(
        process_here(1, run_id=RUN, user="ann"), process_here(2), runs={RUN: RunHold("a/b", NOW + 30)}
    )
    assert all_holder_words(gpu, NOW) == "a/b (ann) until 12:00, in 30 s; python train.py --lr 3e-4 (bob)"
    assert all_holder_words(free_gpu(), NOW) == ""
