"""Export of a plan as a Slurm job script, which runs without Torchdeck on nodes that Slurm chooses."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.node_commands import by_its_own_name
from torchdeck.plan.shell_script import (
    CODE_PLACE,
    PREPARE,
    TOOLS,
    code_default,
    code_lines,
    environment,
    over_lines,
    python_default,
    removals,
    secrets_needed,
    shown_name,
    torchdeck_needed,
    word,
)

NODE_RANK = '"$SLURM_NODEID"'
ADDRESS = '"$ADDRESS"'
NODE_NAME = '"$SLURMD_NODENAME"'

_HERE = 'ADDRESS=${ADDRESS:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)}'
_PORT = "PORT=${PORT:-$((20000 + SLURM_JOB_ID % 10000))}"
"""Below the kernel's ephemeral ports, and different for jobs that share a node."""
_ATTEMPT = "ATTEMPT=${ATTEMPT:-$((${SLURM_RESTART_COUNT:-0} + 1))}"
_GIVEN = ("ADDRESS", "PORT", "RUN_ID", "RUN_DIR", "ATTEMPT", "RESUME")
_RANK_FOLDERS = """\
rank=$FIRST_RANK
while [ "$rank" -lt $((FIRST_RANK + NPROC)) ]; do
  mkdir -p -- "$RUN_DIR/attempts/$ATTEMPT/ranks/$rank"
  rank=$((rank + 1))
done"""


def export_sbatch(plan: LaunchPlan) -> str:
    """Return a script for sbatch that starts `plan`: torchrun once on each node of the job, by srun.

    Differences between nodes are selected by SLURM_NODEID, in the order of the plan. Which GPUs a node's
    ranks see is left to Slurm. Torchdeck's supervision (logs by rank, restarts, stopping with a checkpoint)
    is not included.
    """
    nodes = [where_it_lies(node, plan.code) for node in plan.nodes]
    part = _node_part(plan, nodes)
    end = _end_of(part)
    given = " ".join(f'"${name}"' for name in _given(plan))
    lines = [
        "#!/bin/sh",
        *_asked_for(plan),
        *_head(plan),
        "set -eu",
        _HERE,
        _PORT,
        f"RUN_ID=${{RUN_ID:-exported-{plan.fingerprint[:12]}-$SLURM_JOB_ID}}",
        'RUN_DIR=${RUN_DIR:-"$PWD/$RUN_ID"}',
        _ATTEMPT,
        "RESUME=${RESUME:-}",
        PREPARE.rstrip(),
        *([code_default(plan.code)] if _in_copy(plan) else ()),
        *secrets_needed(nodes[0]),
        "",
        "# each node reads its part, which follows, as the same text",
        f"exec srun --nodes={len(nodes)} --ntasks={len(nodes)} --ntasks-per-node=1 --kill-on-bad-exit=1 \\",
        f"  /bin/sh -s -- {given} <<'{end}'",
        *part,
        end,
    ]
    script = "\n".join(lines) + "\n"
    # sbatch rejects scripts with a DOS line break; one of the user's is between single quotes
    return script.replace("\r\n", "\r''\n")


def _asked_for(plan: LaunchPlan) -> list[str]:
    """Return sbatch directives: every node gets the largest node's needs, as all nodes of a job are alike."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", plan.name).strip("-")[:64] or "torchdeck"
    gpus = max(len(node.devices) for node in plan.nodes)
    seconds = plan.policy.max_seconds
    secrets = plan.nodes[0].secrets
    return [
        f"#SBATCH --job-name={name}",
        f"#SBATCH --nodes={len(plan.nodes)}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --cpus-per-task={max(map(_cores, plan.nodes))}",
        *([f"#SBATCH --gres=gpu:{gpus}"] if gpus else []),
        *([] if seconds is None else [f"#SBATCH --time={max(1, math.ceil(seconds / 60))}"]),
        f"#SBATCH --export={','.join(('ALL', *secrets))}",
    ]


def _cores(node: NodePlan) -> int:
    """Return the cores for a node's ranks, as many as their threads."""
    threads = node.env.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return node.nproc * (max(1, int(threads)) if threads.isdecimal() else 1)


def _head(plan: LaunchPlan) -> list[str]:
    count = len(plan.nodes)
    planned_for = _names(plan.nodes)
    code = "[CODE=folder] " if _in_copy(plan) else ""
    lines = [
        f"# {shown_name(plan)}: {plan.world_size} ranks on {count} node{'' if count == 1 else 's'}.",
        f"# Plan {plan.fingerprint}, made for {planned_for}.",
        "#",
        f"# Usage: {code}[RUN_DIR=folder] [RESUME=checkpoint] [PYTHON=interpreter] [PORT=number] sbatch FILE",
        "# Slurm chooses the nodes and which GPUs their ranks see. Interpreter and code must be on each node",
        "# where they were planned to be. Options of sbatch, such as a partition, go before the file.",
    ]
    lines += code_lines(plan.code) if code else []
    if plan.nodes[0].secrets:
        names = ", ".join(plan.nodes[0].secrets)
        lines.append(f"# Secrets are taken from the environment that sbatch is started in: {names}.")
    if plan.kind == "recipe":
        lines.append("# The recipe needs Torchdeck in that Python: pip install 'torchdeck[train]'.")
    return lines


def _given(plan: LaunchPlan) -> tuple[str, ...]:
    """Return variables of the job's script whose values are passed to the nodes' scripts."""
    return (*_GIVEN, "CODE") if _in_copy(plan) else _GIVEN


def _in_copy(plan: LaunchPlan) -> bool:
    return any(map(starts_in_copy, plan.nodes))


def _names(nodes: Sequence[NodePlan]) -> str:
    """Return a short list of the nodes for a comment."""
    names = [" ".join(node.name.split()) for node in nodes]
    return ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"


def _node_part(plan: LaunchPlan, nodes: Sequence[NodePlan]) -> list[str]:
    """Return the commands run by a shell on each node."""
    return [
        "set -eu",
        # by arguments, not by the environment, which ranks would inherit
        " ".join(f"{name}=${number}" for number, name in enumerate(_given(plan), 1)),
        _by_node([python_default(node) for node in nodes]),
        TOOLS,
        *_ranks(nodes),
        _by_node([CODE_PLACE if starts_in_copy(node) else ":" for node in nodes]),
        _by_node([f"cd -- {word(node.working_dir)}" for node in nodes]),
        _RANK_FOLDERS,
        *removals(nodes[0]),
        *_exports(nodes),
        *torchdeck_needed(plan),
        _by_node([_start(node) for node in nodes]),
    ]


def _ranks(nodes: Sequence[NodePlan]) -> list[str]:
    """Return NPROC, and FIRST_RANK as counted by torchrun: over the nodes in their order."""
    counts = [node.nproc for node in nodes]
    if len(set(counts)) == 1:
        return [f"NPROC={counts[0]}", "FIRST_RANK=$((SLURM_NODEID * NPROC))"]
    firsts = itertools.accumulate(counts, initial=0)
    return [_by_node([f"NPROC={n} FIRST_RANK={first}" for n, first in zip(counts, firsts, strict=False)])]


def _exports(nodes: Sequence[NodePlan]) -> Iterator[str]:
    made = [_environment(node) for node in nodes]
    for name in dict.fromkeys(name for env in made for name in env):
        yield _by_node([f"export {name}={env[name]}" if name in env else f"unset {name}" for env in made])


def _environment(node: NodePlan) -> dict[str, str]:
    """Return the planned environment without what Slurm knows: which node it is, and which of its GPUs are
    ours.
    """
    env = environment(node)
    if "TORCHDECK_NODE" in env:
        env["TORCHDECK_NODE"] = NODE_NAME
    if node.devices:
        env.pop("CUDA_VISIBLE_DEVICES", None)
    return env


def _start(node: NodePlan) -> str:
    """Return torchrun as planned, with Slurm's number of the node and the address of the first."""
    own = {"--node-rank": NODE_RANK}
    if not _is_alone(node):
        own |= {"--master-addr": ADDRESS, "--local-addr": NODE_NAME}
    words = []
    for before, item in itertools.pairwise(("", *by_its_own_name(node.torchrun)[1:])):
        if before == "--rdzv-endpoint" and not _is_alone(node):
            words.append(f"{ADDRESS}:{word(item.rpartition(':')[2])}")
        else:
            words.append(own.get(before) or word(item))
    command = ['"$PYTHON"', *(word(item) for item in node.command[1:])][0 if words else 1 :]
    # the shell has read its script from standard input
    return f'exec "$PYTHON" {over_lines(words + command)} </dev/null'


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
    return "\n".join(["case $SLURM_NODEID in", *branches, f"*)\n{usual}\n;;", "esac"])


def _end_of(part: Sequence[str]) -> str:
    """Return a line that `part` does not contain, as the end marker of a heredoc."""
    held = set("\n".join(part).split("\n"))
    return next(end for n in itertools.count() if (end := f"NODE{n or ''}") not in held)
