"""Files of tests that take long: begun first, so that none of them is what the others wait for at the end."""

LONG = (
    "tests/integration/test_survival.py",
    "tests/gui/journeys/test_training.py",
    "tests/integration/test_audit.py",
    "tests/hosts/test_run_training.py",
    "tests/distributed/test_equivalence.py",
    "tests/hosts/test_run_cut.py",
    "tests/integration/test_headless.py",
    "tests/gui/runs/test_attaching.py",
    "tests/integration/test_resume.py",
    "tests/distributed/test_memory_peak.py",
    "tests/launching/test_tracing_process.py",
    "tests/distributed/strategies/test_deepspeed.py",
    "tests/integration/test_script_with_trainer.py",
    "tests/hosts/test_check.py",
    "tests/integration/test_elastic.py",
    "tests/cli/test_deepspeed_run.py",
    "tests/distributed/test_memory_state.py",
    "tests/hosts/test_other_machine.py",
    "tests/distributed/checkpoints/test_store.py",
    "tests/distributed/checkpoints/test_kills.py",
    "tests/distributed/test_processes.py",
    "tests/distributed/checkpoints/test_resume_matrix.py",
    "tests/integration/test_examples.py",
    "tests/hosts/test_nodes_commands.py",
    "tests/gui/journeys/test_scripts.py",
    "tests/gui/journeys/test_keyboard.py",
    "tests/hosts/test_pull.py",
    "tests/launching/remote/test_link.py",
    "tests/cli/test_plan_traced.py",
    "tests/distributed/test_activation_checkpointing.py",
    "tests/gui/journeys/test_detached.py",
    "tests/cli/test_ckpt_exchange.py",
    "tests/distributed/test_exact_resume.py",
    "tests/gui/journeys/test_bad_folders.py",
    "tests/nodes/ssh/test_connection.py",
    "tests/hosts/test_run_words.py",
    "tests/gui/journeys/test_looks.py",
    "tests/distributed/strategies/test_weights_import.py",
    "tests/hosts/test_front_killed.py",
    "tests/distributed/test_curves.py",
    "tests/hosts/test_run_failures.py",
    "tests/gui/journeys/test_bad_files.py",
    "tests/distributed/test_communication.py",
    "tests/distributed/checkpoints/test_own_disks.py",
    "tests/hosts/test_probing.py",
    "tests/integration/test_slurm.py",
    "tests/gui/journeys/test_opening.py",
    "tests/gui/journeys/test_mistakes.py",
)
"""From the longest, by measured seconds; a new file belongs here from about 20 on."""


def longest_first(nodeid: str) -> int:
    """A key to sort tests by; those of other files keep their order."""
    file = nodeid.partition("::")[0]
    return LONG.index(file) if file in LONG else len(LONG)
