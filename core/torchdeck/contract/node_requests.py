"""Requests that the desktop may send to a node. Standard library, Python 3.10."""

from __future__ import annotations

from torchdeck.contract.run_states import TextEnum

COMMUNICATION_PREFIXES = (
    *("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_FR_"),
    *("TORCH_DISTRIBUTED_DEBUG", "CUDA_LAUNCH_BLOCKING"),
)
"""Beginnings of the names of variables that a node reports: their values are no secrets."""


class ProbeRequest(TextEnum):
    """Requests to `torchdeck.agent.probe`, in a session of its own."""

    FACTS = "facts"
    TIME = "time"
    SAMPLE = "sample"
    OWNERS = "owners"
    CLEAN = "clean"
    END_PROCESS = "end_process"
    LISTEN = "listen"
    REACH = "reach"
    SEEN = "seen"
    RUNS = "runs"
    RUN_FOLDERS = "run_folders"
    REMOVE_RUNS = "remove_runs"
    STOP_RUN = "stop_run"
    TREE = "tree"
    READ = "read"
    DIGEST = "digest"
    CHECKPOINT_PROBLEMS = "checkpoint_problems"
    DISK_SPEED = "disk_speed"
    FREE_PORT = "free_port"
    TRIAL = "trial"
    TRIAL_LOOK = "trial_look"
    TRIAL_END = "trial_end"
    LAY_MARK = "lay_mark"
    SEE_MARK = "see_mark"
    REMOVE_MARKS = "remove_marks"


class LinkRequest(TextEnum):
    """Requests to `torchdeck.agent.link`, over the link of a run."""

    PLAN = "plan"
    START_AGENT = "start_agent"
    AGENT_LOG = "agent_log"
    DELIVER = "deliver"
    KILL = "kill"
    CODE = "code"
    CATCH_UP = "catch_up"
    HANDOVER = "handover"
