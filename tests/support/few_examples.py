"""How many examples a property gets that takes seconds where others take milliseconds."""

from hypothesis import settings

SAMPLE = 30
"""Cases of a fuzzer whose reader runs in a process of its own, in a normal run; the same ones every time."""


def few(count: int) -> int:
    """`count` in a normal run, in a soak what every property gets: for `@settings(max_examples=few(20))`."""
    soaks = settings.get_current_profile_name() == "soak"
    return int(settings().max_examples) if soaks else count


def cases(sample: int = SAMPLE) -> int:
    """Examples of a fuzzer of what comes from outside: `sample` in a normal run, 5,000 in a soak."""
    return 5000 if settings.get_current_profile_name() == "soak" else sample
