"""Tables of nodes in narrow terminals and off a terminal, and one node in full, by values."""

import io
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from support.cli.command import COMMAND, Command
from support.values.node_facts import GIB, gpu, node_facts, python
from torchdeck.cli.console import GAP, FillingTable, bare_table, fitting, print_table
from torchdeck.cli.nodes.monitor import MonitorTable
from torchdeck.cli.nodes.probe import BY_WEIGHT, HEADINGS, _table, sheet
from torchdeck.nodes.probe.facts import RunHere
from torchdeck.nodes.probe.monitoring import NodeNow, NodeState, Sample
from torchdeck.nodes.probe.probe_session import ClockOffset, ProbeError
from torchdeck.nodes.probe.probing import Probed

CLOCK = ClockOffset(0.003, 0.001)


def probed(name: str, **changes: Any) -> Probed:
    return Probed(name, 0.42, node_facts(name, **changes), CLOCK)


@given(st.data(), st.integers(1, 120))
def test_what_is_kept_fits_and_what_matters_most_is_kept(data: st.DataObject, width: int) -> None:
    """Only the first column may be wider than the line, and a column is left out only for want of room."""
    headings = [f"H{number}" for number in range(data.draw(st.integers(1, 6)))]
    cell = st.text("abc", min_size=1, max_size=30)
    rows = [tuple(data.draw(cell) for _ in headings) for _ in range(data.draw(st.integers(1, 3)))]
    weight = data.draw(st.permutations(headings))
    kept = fitting(headings, rows, weight, width)

    def wide(at: int) -> int:
        return max(len(headings[at]), *(len(row[at]) for row in rows))

    def needed(columns: list[int]) -> int:
        return sum(map(wide, columns)) + GAP * (len(columns) - 1)

    assert headings.index(weight[0]) in kept
    assert kept == sorted(kept)
    assert len(kept) == 1 or needed(kept) <= width
    for at in range(len(headings)):
        assert at in kept or needed([*kept, at]) > width
    assert fitting(headings, rows, weight, None) == list(range(len(headings)))


def test_columns_in_which_nothing_stands_go_first() -> None:
    rows = [("a", "-", "xx"), ("b",)]
    assert fitting(("N", "EMPTY", "LAST"), rows, ("N", "EMPTY", "LAST"), 8) == [0, 2]


def test_nodes_take_a_line_each_at_80_columns() -> None:
    """With long names of systems and GPUs; nothing is folded, and both headings weigh the same things."""
    assert sorted(BY_WEIGHT) == sorted(HEADINGS)
    system = {"os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6", "machine": "x", "boot": "", "user": "me"}
    gpus = {"devices": [gpu(0, 7), gpu(1)], "driver": "550", "cuda": "12.4", "error": ""}
    found = {
        "node1": probed("node1", system={"host": "node1", **system}, gpu=gpus),
        "node2": Probed("node2", 12.0, error="node node2: no one answers"),
        "node3": None,
    }
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(_table(found, 80))
    lines = shown(console).splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "node1", "node2", "node3"]
    assert {"NODE", "STATE", "GPUS", "TORCH"} <= set(lines[0].split())
    assert "2 × NVIDIA H100, 1 in use" in lines[1]
    assert lines[2].split()[1:] == ["not", "reached"]
    assert max(map(len, lines)) <= 80


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table(word: str) -> Any:
    made = bare_table(["NODE", "WORD"])
    made.add_row(Text("node1"), Text(word))
    return made


def test_off_a_terminal_a_table_is_printed_once_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line whole, and with its end."""
    monkeypatch.delenv("COLUMNS", raising=False)
    console = Console(file=io.StringIO())
    filling = FillingTable(console)
    with filling:
        filling.show(table("…"))
        for _ in range(2):
            with filling.out_of_the_way():
                pass
        filling.show(table("x" * 200))
    assert [line.rstrip() for line in shown(console).splitlines()] == ["NODE   WORD", f"node1  {'x' * 200}"]
    assert shown(console).endswith("\n")


def test_at_a_terminal_a_question_is_not_drawn_over_and_the_table_stays_once() -> None:
    """Of the terminal's lines: what was asked stays, and the table stands once below it."""
    console = Console(file=io.StringIO(), width=40, height=20, force_terminal=True, color_system=None)
    filling = FillingTable(console)
    with filling:
        filling.show(table("begun"))
        with filling.out_of_the_way():
            console.file.write("one question\nand its answer\n")
        filling.show(table("done"))
    lines = screen(shown(console))
    assert [line.split() for line in lines if line.strip()] == [
        ["one", "question"],
        ["and", "its", "answer"],
        ["NODE", "WORD"],
        ["node1", "done"],
    ]


def screen(text: str) -> list[str]:
    """The lines of a terminal that was sent `text`: line ends, cursor up, erased lines."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(text):
        if text.startswith("\x1b[", at):
            end = next(place for place in range(at + 2, len(text)) if text[place].isalpha())
            if text[end] == "A":
                row -= int(text[at + 2 : end] or 1)
            elif text[end] == "K":
                lines[row] = ""
            at = end + 1
            continue
        if text[at] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text[at] == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + text[at] + lines[row][column + 1 :]
            column += 1
        at += 1
    return lines


def test_one_node_is_shown_in_full() -> None:
    """Disks, who uses GPUs, drivers, interfaces and addresses, every Python, and what is not well."""
    run = {"run_id": "r1", "directory": "/r", "processes": [7], "ranks": [0], "user": "me"}
    disk = {"path": "/root", "there": True, "writable": True, "total": 100 * GIB, "free": 50 * GIB}
    said = probed(
        "node1",
        home="/root",
        disks=[disk, {**disk, "path": "/data", "there": False, "writable": False}],
        gpu={"devices": [gpu(0, 7, 8), gpu(1)], "driver": "550.1", "cuda": "12.4", "error": ""},
        pythons=[python(), python(executable="/opt/py", torch=None, chosen=False, version="3.12.1")],
        runs=[{**run, "supervised": True}, {**run, "run_id": "dead", "processes": [9], "supervised": False}],
        kills_after_logout=True,
    )
    assert said.facts is not None
    text = sheet(said, said.facts)
    for words in (
        "node1 is up, and answered in 0.42 s",
        "/root: 50.0 GiB of 100.0 GiB free, Torchdeck's home",
        "/data: 50.0 GiB of 100.0 GiB free, not made yet, cannot be written",
        "driver 550.1, for CUDA up to 12.4",
        "0: NVIDIA H100, 79.0 GiB of 80.0 GiB free; used by pid 7 (run r1, 1.0 GiB), pid 8 (1.0 GiB)",
        "/usr/bin/python3: 3.11.7, torch 2.13.0",
        "/opt/py: 3.12.1, ",
        "eth0: 10.0.0.5, 1,000 Mbit/s",
        "+3 ms against ours (± 1)",
        "dead of me, pids 9, an orphan",
        "KillUserProcesses",
    ):
        assert words in text
    assert text.count("runs use this one") == 1


@pytest.mark.processes
@pytest.mark.parametrize("columns", [None, 80])
def test_the_book_is_listed_a_line_a_node_with_long_paths(torchdeck_home: Path, columns: int | None) -> None:
    """Whole where a line has no end; at 80 columns the end of the path, which says most."""
    venv = f"/opt/{'very/' * 20}deep/env"
    command = Command(torchdeck_home)
    command.run("nodes", "add", "node1", "10.0.0.1", "--venv", venv, "--tags", "fast")
    env = {key: value for key, value in command.environment().items() if key != "COLUMNS"}
    env |= {} if columns is None else {"COLUMNS": str(columns)}
    done = subprocess.run(
        [*COMMAND, "nodes", "list"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    heading, row, *_ = done.stdout.splitlines()
    assert heading.split()[:2] == ["NAME", "ADDRESS"]
    assert row.split()[:2] == ["node1", "10.0.0.1"]
    assert (venv in row) == (columns is None)
    assert "/deep/env" in row
    assert "fast" in row
    assert columns is None or len(row) <= columns


def test_print_table_cuts_where_a_line_has_an_end() -> None:
    console = Console(file=io.StringIO(), width=20, force_terminal=True, color_system=None)
    print_table(console, table("x" * 50))
    assert max(map(len, shown(console).splitlines())) <= 20


RUN = {
    "run_id": "20261122T230000Z-gpt-abcdef",
    "directory": "",
    "processes": [7, 8],
    "ranks": [0],
    "user": "me",
    "supervised": False,
}


def now(name: str, cpu: float, *gpus: int) -> NodeNow:
    """A node with GPUs, each leased by a run, and with a run that no one looks after."""
    values = {
        "cpu_percent": cpu,
        "memory_used_bytes": 5e9,
        "memory_total_bytes": 6.6e10,
        "disk_free_bytes": 9e11,
    }
    for index in gpus:
        values |= {
            f"gpu{index}_util": 99.0,
            f"gpu{index}_memory_used_bytes": 7e10,
            f"gpu{index}_temperature_c": 61,
        }
    devices = [gpu(index) for index in gpus]
    facts = node_facts(name, gpu={"devices": devices, "driver": "", "cuda": "", "error": ""})
    owners = {f"GPU-{index}": {"run_id": RUN["run_id"], "name": "gpt"} for index in gpus}
    said = {"time": 0.0, "values": values, "load": (1.5, 1, 1), "owners": owners}
    sample, run = Sample.model_validate(said), RunHere.model_validate(RUN)
    return NodeNow(name, NodeState.UP, 0.0, heard=time.time(), facts=facts, sample=sample, runs=(run,))


def test_the_monitor_is_readable_at_80_columns() -> None:
    """A line for each node and each of its GPUs; what has no room is said, and why a node is lost."""
    silent = ProbeError("node node3: it did not answer 'sample' within 6 s")
    lost = replace(now("node3", 1.0), state=NodeState.LOST, error=silent)
    nodes = {"node1": now("node1", 3.0, 0, 1), "node2": now("node2", 100.0), "node3": lost}
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(MonitorTable().of(nodes, 80))
    lines = [line.rstrip() for line in shown(console).splitlines()]
    assert max(map(len, lines)) <= 80
    heading, one, more, two, three, left, why = lines
    assert heading.split() == ["NODE", "STATE", "CPU", "LOAD", "GPUS"]
    assert one.endswith("0: 99 %, 65.2 GiB of 80.0 GiB, 61 °C, gpt")
    assert more.split() == ["1:", "99", "%,", "65.2", "GiB", "of", "80.0", "GiB,", "61", "°C,", "gpt"]
    assert (two.split()[:4], three.split()[1]) == (["node2", "up", "100", "%"], "lost")
    assert left == "no room for MEMORY, DISK FREE, NETWORK, RUNS"
    assert why == lost.why


def test_columns_of_the_monitor_do_not_come_and_go() -> None:
    """As numbers grow and shrink: what had no room once has none from then on."""
    table, headings = MonitorTable(), []
    for cpu in (9.0, 100.0, 9.0):
        console = Console(file=io.StringIO(), width=78, force_terminal=True, color_system=None)
        console.print(table.of({"n": now("n", cpu)}, 78))
        headings.append(shown(console).splitlines()[0].split())
    assert headings[0] != headings[1] == headings[2]
