"""The command line of an agent."""

from __future__ import annotations

from pathlib import Path

PROCESS_NAME = "torchdeck-agent"
"""Process name in `ps -o comm`."""
PREPARED = "--prepared"
"""Option of an agent that waits for its bootstrap payload, and ends without it."""


def agent_argv(python: str, package: Path, run_dir: Path, node: str, life: int = 0) -> list[str]:
    """Starts an agent for a node of a run.

    Args:
        python: the node's interpreter.
        package: the folder `torchdeck` of the runtime bundle.
        run_dir: the run's directory on the node.
        node: its name in the plan.
        life: how often the run had finished when it was resumed.
    """
    main = package / "agent" / "__main__.py"
    return [python, "-I", "-B", str(main), "--run-dir", str(run_dir), "--node", node, "--life", str(life)]
