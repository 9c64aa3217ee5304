"""Look and texts of a node's card: a shape, a word, a colour, and the available help."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts, RunHere
from torchdeck.quantities import size
from torchdeck.use_cases.nodes.monitor import Sample
from torchdeck_app.nodes.node_sight import Standing, python_fault, python_fix
from torchdeck_app.widgets.state_badge import Look


def address_words(entry: NodeEntry) -> str:
    """Return its address, its proxy hosts, and its tags."""
    user = f"{entry.user}@" if entry.user else ""
    port = f":{entry.port}" if entry.port else ""
    through = f" through {' → '.join(entry.jump)}" if entry.jump else ""
    tags = f"  {', '.join(entry.tags)}" if entry.tags else ""
    return f"{user}{entry.address}{port}{through}{tags}"


def machine_words(facts: NodeFacts) -> str:
    """Return its system, processors, memory and software on one line."""
    python = facts.python
    parts = [
        facts.system.os,
        f"{facts.cpu.usable} CPU{'s' * (facts.cpu.usable != 1)}",
        size(facts.memory.total),
        f"Python {python.version}",
        f"torch {python.torch}" if python.torch else "no torch",
    ]
    return " · ".join(parts + ([f"driver {facts.gpu.driver}"] if facts.gpu.driver else []))


def machine_details(facts: NodeFacts) -> str:
    """Return the same with more detail, one item per line, for the tooltip."""
    python, home = facts.python, facts.disks[0] if facts.disks else None
    lines = [
        f"host {facts.system.host}, {facts.system.os}",
        f"kernel {facts.system.kernel}, {facts.system.machine}",
        f"{facts.cpu.model}: {facts.cpu.cores} cores, {facts.cpu.usable} usable",
        f"{facts.memory.total:,} bytes of memory",
        f"{python.executable}: Python {python.version}, torch {python.torch or 'none'}",
        f"Torchdeck's home: {facts.home}",
    ]
    if facts.gpu.driver:
        lines.append(f"NVIDIA driver {facts.gpu.driver}, CUDA up to {facts.gpu.cuda}")
    if home is not None:
        lines.append(f"disk of {home.path}: {size(home.free)} of {size(home.total)} free")
    return "\n".join(lines)


def why_words(name: str, why: str) -> str:
    """Return why a node is not connected, without its name, which is at the top of its card."""
    rest = why.removeprefix(f"Node {name}: ")
    first = rest.partition(" ")[0]
    # a login or a path stays as written
    return f"{rest[:1].upper()}{rest[1:]}" if first.isalpha() else rest


def with_fix(what: str, fix: str) -> str:
    """Return the problem, with the fix on a separate line."""
    return f"{what}\n→ {fix}" if what and fix else what


def lacks(facts: NodeFacts, entry: NodeEntry) -> str:
    """Return what it lacks for training, and the fix; empty if nothing."""
    fault = python_fault(facts)
    return with_fix(fault, python_fix(entry)) or facts.gpu.error


def memory_words(sample: Sample) -> tuple[float, str, str]:
    """Return percent, text and exact text of its main memory."""
    used = sample.values.get("memory_used_bytes", 0.0)
    total = sample.values.get("memory_total_bytes", 0.0)
    share = 100.0 * used / total if total else 0.0
    return share, f"{share:.0f} %", f"{size(used)} of {size(total)}: {used:,.0f} of {total:,.0f} bytes"


def cpu_words(sample: Sample, facts: NodeFacts | None) -> tuple[float, str, str]:
    """Return percent, text and exact text of its processors."""
    percent = sample.values.get("cpu_percent", 0.0)
    cores = "" if facts is None else f" of {facts.cpu.cores}"
    load = ", ".join(f"{value:.2f}" for value in sample.load)
    return percent, f"{percent:.0f} %{cores}", f"load over 1, 5 and 15 minutes: {load}"


def run_words(run: RunHere) -> str:
    """Return the name of a run with processes there, and what distinguishes it from others of that name."""
    _time, _, name = run.run_id.partition("-")
    count = len(run.processes)
    processes = f"{count} process{'es' * (count != 1)}"
    if not run.ranks:
        return f"{name or run.run_id}  {processes}"
    ranks = ", ".join(map(str, run.ranks[:8])) + (" …" if len(run.ranks) > 8 else "")
    return f"{name or run.run_id}  rank{'s' * (len(run.ranks) != 1)} {ranks}"


def orphan_words(orphans: tuple[RunHere, ...]) -> str:
    """Return the text about orphans of dead runs."""
    count = sum(len(run.processes) for run in orphans)
    runs = "a dead run" if len(orphans) == 1 else f"{len(orphans)} dead runs"
    return f"{count} process{'es' * (count != 1)} of {runs} {'are' if count != 1 else 'is'} left"


def cleaning_words(name: str, orphans: tuple[RunHere, ...]) -> str:
    """Return what a cleanup will kill, for its confirmation."""
    lines = [
        f"• {run.run_id}: {len(run.processes)} process{'es' * (len(run.processes) != 1)}"
        f" of {run.user or 'unknown'} (pid {', '.join(map(str, run.processes[:6]))}"
        f"{' …' if len(run.processes) > 6 else ''})"
        for run in orphans
    ]
    return (
        f"No agent supervises these processes on {name} any more. They get SIGTERM, and SIGKILL 5 s later. "
        "Steps after their last checkpoint are lost. Live runs are not touched.\n\n" + "\n".join(lines)
    )


# Look of a node's connection state, and the available help: a shape, a word, a colour, and the card's
# button.


class Help(NamedTuple):
    """User action for a node that is not connected."""

    text: str
    tip: str
    asks: bool
    """Whether it may prompt the user."""
    edits: bool = False
    """Whether it edits the node inventory."""


LOOKS = {
    Standing.REACHING: Look("◷", "connecting", "quiet"),
    Standing.REACHED: Look("●", "connected", "good"),
    Standing.UNREACHABLE: Look("✕", "unreachable", "bad"),
    Standing.NEEDS_LOGIN: Look("◐", "needs login", "warn"),
    Standing.NEEDS_KEY: Look("✕", "no accepted key", "bad"),
    Standing.KEY_UNKNOWN: Look("?", "host key unknown", "warn"),
    Standing.KEY_CHANGED: Look("✕", "host key changed", "bad"),
    Standing.NO_PYTHON: Look("✕", "no Python", "bad"),
}
HELPS = {
    Standing.UNREACHABLE: Help("Try again", "Connect again", asks=False),
    Standing.NEEDS_LOGIN: Help("Log in …", "Enter the password or passphrase, and connect", asks=True),
    Standing.NEEDS_KEY: Help(
        "Edit …", "Choose a key that the node accepts; it allows no passwords", asks=False, edits=True
    ),
    Standing.KEY_UNKNOWN: Help(
        "Check the key …", "Show the host's fingerprint, to trust it or not", asks=True
    ),
    Standing.KEY_CHANGED: Help("Try again", "Connect again; a changed key stays refused", asks=False),
    Standing.NO_PYTHON: Help("Edit …", "Change its Python in the node inventory", asks=False, edits=True),
}
"""None if no action is possible."""


def summary(standings: list[Standing]) -> str:
    """Return the number of nodes and their connection states, in a few words."""
    if not standings:
        return ""
    total = f"{len(standings)} node{'s' * (len(standings) != 1)}"
    counts = {standing: standings.count(standing) for standing in LOOKS}
    told = [f"{count} {LOOKS[standing].word}" for standing, count in counts.items() if count]
    told.sort(key=lambda text: not text.endswith(LOOKS[Standing.REACHED].word))
    return f"{total}: {', '.join(told)}"
