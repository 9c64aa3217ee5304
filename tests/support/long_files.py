"""Files of tests that take long: begun first, so that none of them is what the others wait for at the end."""

LONG = (
    "tests/gui/journeys/test_training.py",
    "tests/integration/test_resume.py",
    "tests/integration/test_survival.py",
    "tests/launch/test_tracing_process.py",
    "tests/integration/test_elastic.py",
    "tests/gui/journeys/test_looks.py",
    "tests/gui/journeys/test_scripts.py",
    "tests/gui/journeys/test_opening.py",
    "tests/gui/journeys/test_mistakes.py",
    "tests/integration/test_audit.py",
    "tests/integration/test_examples.py",
    "tests/integration/test_headless.py",
    "tests/agent/test_run_endings.py",
    "tests/agent/test_agent_torchrun.py",
    "tests/distributed/test_equivalence.py",
    "tests/distributed/test_memory_state.py",
    "tests/distributed/test_memory_peak.py",
    "tests/distributed/strategies/test_deepspeed.py",
    "tests/distributed/test_entry.py",
    "tests/distributed/checkpoints/test_store.py",
    "tests/distributed/checkpoints/test_kills.py",
    "tests/tracing/test_bad_recipes.py",
    "tests/recipes/test_digits.py",
    "tests/cli/test_plan_traced.py",
    "tests/cli/test_deepspeed_run.py",
    "tests/integration/test_troubleshooting.py",
    "tests/integration/test_bad_input.py",
    "tests/distributed/checkpoints/test_resume_matrix.py",
    "tests/distributed/checkpoints/test_deepspeed_import.py",
    "tests/distributed/test_exact_resume.py",
    "tests/distributed/test_zero_state.py",
    "tests/distributed/test_processes.py",
    "tests/gui/launch/form/test_form.py",
)
"""From the longest, by measured seconds; a new file belongs here from about 20 on."""


def longest_first(nodeid: str) -> int:
    """A key to sort tests by; those of other files keep their order."""
    file = nodeid.partition("::")[0]
    return LONG.index(file) if file in LONG else len(LONG)
