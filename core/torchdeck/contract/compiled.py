"""Where torch keeps what it compiles."""

from __future__ import annotations

from torchdeck.contract.layout import Home


def compile_cache(home: Home) -> dict[str, str]:
    """The variable that names a folder in TORCHDECK_HOME, which all runs share.

    torch's default is a folder in /tmp whose name other users can guess: they could make it first, and put
    code into it that a run then executes.
    """
    return {"TORCHINDUCTOR_CACHE_DIR": str(home.compiled)}
