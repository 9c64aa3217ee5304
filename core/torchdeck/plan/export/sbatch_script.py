"""Export of a plan as a Slurm job script, which runs without Torchdeck on nodes that Slurm chooses."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from torchdeck.config.machines.slurm import Slurm
from torchdeck.contract.package import VERSION
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan
from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.export.node_part import largest, node_part
from torchdeck.plan.export.shell_script import (
    PREPARE,
    code_default,
    code_lines,
    python_default,
    secrets_needed,
    shown_name,
    word,
)

_HERE = 'ADDRESS=${ADDRESS:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)}'
_PORT = "PORT=${PORT:-$((20000 + SLURM_JOB_ID % 10000))}"
"""Below the kernel's ephemeral ports, and different for jobs that share a node."""
_ATTEMPT = """\
ATTEMPT=${ATTEMPT:-1}
while [ -e "$RUN_DIR/attempts/$ATTEMPT" ]; do ATTEMPT=$((ATTEMPT + 1)); done"""
_GIVEN = ("ADDRESS", "PORT", "RUN_ID", "RUN_DIR", "ATTEMPT", "RESUME")


def export_sbatch(plan: LaunchPlan, slurm: Slurm | None = None) -> str:
    """Return a script for sbatch that starts `plan`: torchrun once on each node of the job, by srun.

    Differences between nodes are selected by SLURM_NODEID, in the order of the plan. Which GPUs a node's
    ranks see is left to Slurm. The script asks the ranks to save before the time limit, requeues the job and
    resumes. It keeps logs of each rank, and what `torchdeck runs attach RUN_DIR` needs to show the job.

    Args:
        plan: the plan.
        slurm: what the job asks of Slurm. Default: nothing but what the plan needs.
    """
    slurm = slurm or Slurm()
    nodes = [where_it_lies(node, plan.code) for node in plan.nodes]
    # by arguments, not by the environment, which ranks would inherit
    arguments = " ".join(f"{name}=${number}" for number, name in enumerate(_given(plan), 1))
    of_node = ["set -eu", arguments, "NODE=$SLURM_NODEID NODE_NAME=$SLURMD_NODENAME"]
    redirection, *part = _here_document([*of_node, *node_part(plan, nodes, logs=True)], "NODE")
    given = " ".join(f'"${name}"' for name in _given(plan))
    lines = [
        # `module` is a function of bash, and scripts of conda read variables that are not set
        "#!/bin/bash" if slurm.setup else "#!/bin/sh",
        *_asked_for(plan, slurm),
        *_head(plan),
        "set -e",
        *slurm.setup,
        "set -u",
        _HERE,
        _PORT,
        f"RUN_ID=${{RUN_ID:-exported-{plan.fingerprint[:12]}-$SLURM_JOB_ID}}",
        'RUN_DIR=${RUN_DIR:-"$PWD/$RUN_ID"}',
        f"RESUME=${{RESUME:-{word(plan.checkpoint.resume or 'auto')}}}",
        PREPARE.rstrip(),
        _ATTEMPT,
        *([code_default(plan.code)] if _in_copy(plan) else ()),
        *secrets_needed(nodes[0]),
        *_job(plan, nodes[0], slurm),
        "# each node reads its part, which follows, as the same text",
        f"srun --nodes={len(nodes)} --ntasks={len(nodes)} --ntasks-per-node=1 --kill-on-bad-exit=1 \\",
        # since 22.05 a step does not get it from its job
        f'  --cpus-per-task="${{SLURM_CPUS_PER_TASK:-{largest(nodes)[0]}}}" \\',
        f"  /bin/sh -s -- {given} {redirection} &",
        *part,
        Path(__file__).with_name("slurm_end.sh").read_text("utf-8").rstrip(),
    ]
    script = "\n".join(lines) + "\n"
    # sbatch rejects scripts with a DOS line break; one of the user's is between single quotes
    return script.replace("\r\n", "\r''\n")


def _with_own_python(node: NodePlan) -> NodePlan:
    """Return a node without an environment that only an agent makes: its user names the Python."""
    if node.environment is None:
        return node
    return dataclasses.replace(node, environment=None, command=("python", *node.command[1:]))


def _job(plan: LaunchPlan, first: NodePlan, slurm: Slurm) -> list[str]:
    """Return what the job does on its first node before it starts the ranks.

    Args:
        plan: the plan.
        first: its first node.
        slurm: options of the job.
    """
    created = {
        "name": plan.name,
        "kind": plan.kind,
        "target": plan.target,
        "world_size": plan.world_size,
        "strategy": plan.strategy,
        "fingerprint": plan.fingerprint,
        "cli_version": VERSION,
        "scheduler": "slurm",
    }
    # without the list of the user's files, which may be thousands
    shown = dataclasses.replace(plan, code=CodeTree(), nodes=tuple(map(_with_own_python, plan.nodes)))
    document = shown.document()
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    ends_by_itself = slurm.time is None and plan.policy.max_seconds is not None
    return [
        # a function, as the nodes inherit the variable
        f'python() (\n{python_default(first)}\nexec "$PYTHON" "$@"\n)',
        f"KIND={plan.kind} WORLD_SIZE={plan.world_size}",
        f"CHECKPOINTS={word(plan.checkpoint.directory)}",
        *(["# limits.max_hours is the end of the run"] if ends_by_itself else []),
        f"REQUEUE={'never' if ends_by_itself else slurm.requeue}",
        f"CREATED={shlex.quote(json.dumps(created)[1:-1])}",
        "cat >\"$RUN_DIR/plan.json\" <<'PLAN'",
        text,
        "PLAN",
        Path(__file__).with_name("slurm_begin.sh").read_text("utf-8"),
    ]


def _asked_for(plan: LaunchPlan, slurm: Slurm) -> list[str]:
    """Return sbatch directives: every node gets the largest node's needs, as all nodes of a job are alike."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", plan.name).strip("-")[:64] or "torchdeck"
    cores, gpus = largest(plan.nodes)
    seconds = plan.policy.max_seconds
    asked: dict[str, str | int | None] = {
        "job-name": name,
        "nodes": len(plan.nodes),
        "ntasks-per-node": 1,
        "cpus-per-task": cores,
        "gres": slurm.gres or (f"gpu:{gpus}" if gpus else None),
        "time": slurm.time or (None if seconds is None else max(1, math.ceil(seconds / 60))),
        "account": slurm.account,
        "partition": slurm.partition,
        "qos": slurm.qos,
        "constraint": slurm.constraint,
        "output": slurm.output,
        "open-mode": "append",
        # to the shell alone, which asks the ranks
        "signal": f"B:USR1@{slurm.save_before}",
        "export": ",".join(("ALL", *plan.nodes[0].secrets)),
    }
    return [
        *(f"#SBATCH --{option}={value}" for option, value in asked.items() if value is not None),
        f"#SBATCH --{'no-requeue' if slurm.requeue == 'never' else 'requeue'}",
        *(f"#SBATCH {option}" for option in slurm.options),
    ]


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
        "# RUN_DIR must be in a folder that all nodes share. RESUME is auto (the newest checkpoint in it),",
        "# never, or the path of a checkpoint; a requeued job continues from what it has saved.",
        "# `scancel --batch --signal=USR1 JOB` saves and requeues. `scancel --batch --signal=TERM JOB`, or",
        "# `touch RUN_DIR/attempts/N/stop`, saves and ends.",
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


def _here_document(lines: Sequence[str], name: str) -> list[str]:
    """Return the redirection of a shell's heredoc, `lines`, and its end, which is none of them."""
    held = set("\n".join(lines).split("\n"))
    end = next(end for n in itertools.count() if (end := f"{name}{n or ''}") not in held)
    return [f"<<'{end}'", *lines, end]
