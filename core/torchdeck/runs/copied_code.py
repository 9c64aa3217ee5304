"""Whether a run has a copy of the user's code, by its plan."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.quantities import size

_LONGEST = 500
"""Maximum number of characters of a reason that are shown."""


def code_sentence(plan: object) -> str:
    """Return a sentence that a run executes its own copy, or why it does not; empty if the plan has no
    information.

    Args:
        plan: content of plan.json, of any type.
    """
    code = plan.get("code") if isinstance(plan, Mapping) else None
    if not isinstance(code, Mapping) or not isinstance(code.get("files"), Mapping) or not code["files"]:
        return ""
    folder, why, length = code.get("folder"), code.get("uncopied"), code.get("size")
    count = f"{len(code['files']):,} file{'s' * (len(code['files']) != 1)}"
    if isinstance(folder, str) and folder:
        held = f", {size(length)}" if isinstance(length, int) and 0 <= length < 2**63 else ""
        left = code.get("left_out")
        out = f"; {len(left):,} left out" if isinstance(left, Mapping) and left else ""
        return f"executes a copy of {folder}: {count}{held}{out}"
    reason = f": {why[:_LONGEST]}" if isinstance(why, str) and why else ""
    return f"no copy of the code was made; files are executed where they lie{reason}"
