"""A node's share of a job whose nodes a cluster chooses, as commands of its shell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.code_paths import starts_in_copy
from torchdeck.plan.export.shell_script import (
    CODE_PLACE,
    TOOLS,
    environment,
    over_lines,
    python_default,
    removals,
    torchdeck_needed,
    word,
)
from torchdeck.plan.node_commands import by_its_own_name

_NODE_RANK = '"$NODE"'
_ADDRESS = '"$ADDRESS"'
_NODE_NAME = '"$NODE_NAME"'
_RANK_FOLDERS = """\
rank=$FIRST_RANK
while [ "$rank" -lt $((FIRST_RANK + NPROC)) ]; do
  mkdir -p -- "$RUN_DIR/attempts/$ATTEMPT/ranks/$rank"
  rank=$((rank + 1))
done"""
_RANK_SHIM = Path(__file__).parents[2] / "agent/processes/rank_holder.sh"
_SHIM_FILE = '"$RUN_DIR/attempts/$ATTEMPT/rank_$NODE.sh"'
"""The rank shim on a node; ranks of one node start from one file, so that no shared folder is waited for."""
_WITHOUT_SIGTERM = "SIGINT,SIGQUIT"
_WAIT = """\
while :; do
  code=0
  wait "$program" || code=$?
  kill -0 "$program" 2>/dev/null || break # a signal only interrupts the wait
done"""
_ON_STOP = """\
(
  until [ -e "$STOP" ]; do sleep 1; done
  {kill}
) >/dev/null 2>&1 &
watcher=$!
"""
_AFTER_STOP = """
kill "$watcher" 2>/dev/null || :
[ ! -e "$STOP" ] || exit 0 # no failure, for which srun would kill the other nodes
"""
_CHILD = 'for child in $(cat "/proc/$program/task/$program/children"); do kill -TERM "$child"; done'


def node_part(plan: LaunchPlan, nodes: Sequence[NodePlan], *, logs: bool) -> list[str]:
    """Return the commands that a shell on each node runs, the same text on all of them.

    The shell has the variables NODE (number of the node), NODE_NAME, ADDRESS (of the first node), PORT,
    RUN_ID, RUN_DIR, ATTEMPT, RESUME and, for code that a run copies, CODE. It has the ranks save and end if
    the stop file is made or it gets SIGTERM.

    Args:
        plan: the plan.
        nodes: its nodes, with the code where it lies.
        logs: a file in the run directory for the output of each rank; else it goes to the shell's.
    """
    return [
        _by_node([python_default(node) for node in nodes]),
        TOOLS,
        *_ranks(nodes),
        _by_node([CODE_PLACE if starts_in_copy(node) else ":" for node in nodes]),
        _by_node([f"cd -- {word(node.working_dir)}" for node in nodes]),
        _RANK_FOLDERS,
        *removals(nodes[0]),
        *_exports(nodes),
        *torchdeck_needed(plan),
        *(_shim() if logs else ()),
        'STOP="$RUN_DIR/attempts/$ATTEMPT/stop"',
        "trap 'touch \"$STOP\"' TERM",
        _by_node([_start(plan, node, logs=logs) for node in nodes]),
        *_until_end(plan, logs=logs),
    ]


def _shim() -> list[str]:
    return [
        f"cat >{_SHIM_FILE} <<'SHIM'",
        _RANK_SHIM.read_text("utf-8").rstrip(),
        "SHIM",
        # it makes only what is in the run directory private
        "TORCHDECK_UMASK=$(umask)",
        "export TORCHDECK_UMASK",
    ]


def largest(nodes: Sequence[NodePlan]) -> tuple[int, int]:
    """Return the most cores and the most GPUs that a node needs: all nodes of a job are alike."""
    return max(map(_cores, nodes)), max(len(node.devices) for node in nodes)


def _cores(node: NodePlan) -> int:
    """Return the cores for a node's ranks, as many as their threads."""
    threads = node.env.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return node.nproc * (max(1, int(threads)) if threads.isdecimal() else 1)


def _until_end(plan: LaunchPlan, *, logs: bool) -> list[str]:
    """Return what a node's shell does while its ranks run: a script is ended with SIGTERM at a stop."""
    if plan.kind == "recipe":
        return [_WAIT, 'exit "$code"']
    kill = 'kill -TERM "$program"' if plan.nodes[0].torchrun or not logs else _CHILD
    return [_ON_STOP.format(kill=kill) + _WAIT + _AFTER_STOP + 'exit "$code"']


def _ranks(nodes: Sequence[NodePlan]) -> list[str]:
    """Return NPROC, and FIRST_RANK as counted by torchrun: over the nodes in their order."""
    counts = [node.nproc for node in nodes]
    if len(set(counts)) == 1:
        return [f"NPROC={counts[0]}", "FIRST_RANK=$((NODE * NPROC))"]
    firsts = itertools.accumulate(counts, initial=0)
    return [_by_node([f"NPROC={n} FIRST_RANK={first}" for n, first in zip(counts, firsts, strict=False)])]


def _exports(nodes: Sequence[NodePlan]) -> Iterator[str]:
    made = [_environment(node) for node in nodes]
    for name in dict.fromkeys(name for env in made for name in env):
        yield _by_node([f"export {name}={env[name]}" if name in env else f"unset {name}" for env in made])


def _environment(node: NodePlan) -> dict[str, str]:
    """Return the planned environment without what a cluster decides: the node, and which GPUs are ours."""
    env = environment(node)
    if "TORCHDECK_NODE" in env:
        env["TORCHDECK_NODE"] = _NODE_NAME
    if node.devices:
        env.pop("CUDA_VISIBLE_DEVICES", None)
    return env


def _start(plan: LaunchPlan, node: NodePlan, *, logs: bool) -> str:
    """Return torchrun as planned, with the shell's number of the node and the address of the first.

    Ranks of recipes see the stop file, so they and their torchrun ignore SIGTERM.
    """
    own = {"--node-rank": _NODE_RANK}
    if plan.kind == "recipe":
        own["--signals-to-handle"] = _WITHOUT_SIGTERM
    if not _is_alone(node):
        own |= {"--master-addr": _ADDRESS, "--local-addr": _NODE_NAME}
    words = ['"$PYTHON"'] if node.torchrun else []
    for before, item in itertools.pairwise(("", *by_its_own_name(node.torchrun)[1:])):
        if before == "--rdzv-endpoint" and not _is_alone(node):
            words.append(f"{_ADDRESS}:{word(item.rpartition(':')[2])}")
        else:
            words.append(own.get(before) or word(item))
    command = ['"$PYTHON"', *(word(item) for item in node.command[1:])]
    if logs:
        command = ["/bin/sh", _SHIM_FILE, *command]
    ignore = "trap '' TERM; " if plan.kind == "recipe" else ""
    # the shell has read its script from standard input
    return f"({ignore}exec {over_lines(words + command)}) </dev/null &\nprogram=$!"


def _is_alone(node: NodePlan) -> bool:
    argv = node.torchrun
    return not argv or argv[argv.index("--nnodes") + 1] == "1"


def _by_node(texts: Sequence[str]) -> str:
    """Return a shell command that is `texts[n]` on node n; the most common one comes last."""
    if len(set(texts)) == 1:
        return texts[0]
    numbers: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        numbers.setdefault(text, []).append(number)
    *others, (usual, _) = sorted(numbers.items(), key=lambda item: len(item[1]))
    branches = [f"{'|'.join(map(str, which))})\n{text}\n;;" for text, which in others]
    return "\n".join(["case $NODE in", *branches, f"*)\n{usual}\n;;", "esac"])
