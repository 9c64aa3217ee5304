"""YAML as it is written for Kubernetes: PyYAML reads back what was written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.plan.export.yaml_text import Commented, yaml_text

yaml: Any = pytest.importorskip("yaml")

TEXTS = st.text(
    st.sampled_from("ab:-#'\"\\{}[]|>&*!%@`,? \n\t\r0\u2028\x85")
    | st.characters(codec="utf-8", exclude_characters="\0")
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_every_value_comes_back(value: dict[str, Any]) -> None:
    assert (yaml.safe_load(yaml_text(value)) or {}) == value


@pytest.mark.parametrize(
    "text", ["1", "1.5", "true", "No", "null", "~", "2026-11-29", "0x1f", "1e3", "", "-"]
)
def test_texts_stay_texts(text: str) -> None:
    assert yaml.safe_load(yaml_text({"a": text, "b": [text]})) == {"a": text, "b": [text]}


def test_a_script_is_a_block_and_a_comment_is_behind_its_value() -> None:
    written = yaml_text({"image": Commented("FILL-IN", "yours"), "command": ["-c", "set -e\n\n  exit\n"]})
    assert written == 'image: FILL-IN # yours\ncommand:\n  - "-c"\n  - |\n    set -e\n\n      exit\n'
