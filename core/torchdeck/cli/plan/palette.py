"""Colours of the preview on a terminal; those of the memory terms are in `torchdeck.plan.preview.terms`.

Series: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision.
"""

from __future__ import annotations

from collections.abc import Mapping

SERIES = "#2a8ad4"
"""Bars on a terminal."""
GROUPS = ("#2a8ad4", "#12a67c")
"""Shard groups on a terminal, in turn."""
VERDICTS: Mapping[str, str] = {"fits": "green", "tight": "yellow", "does not fit": "red", "unknown": "dim"}
"""Colours on a terminal, named so that its theme suits its background."""
