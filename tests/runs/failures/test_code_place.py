"""Places in code that a line of output names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.runs.failures.code_place import CodePlace, place_in


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('  File "/home/ada/train.py", line 12, in main', CodePlace("/home/ada/train.py", 12)),
        ('  File "a b/c d.py", line 3', CodePlace("a b/c d.py", 3)),
        ("[rank1]: /srv/x/train.py:7: UserWarning: loss", CodePlace("/srv/x/train.py", 7)),
        ("error at src/model.cu:120:9", CodePlace("src/model.cu", 120, 9)),
        ('File "<string>", line 1', None),
        ('File "x.py", line 0', None),
        ("12:30:15 loss=2.3", None),
        ("http://host.com:8080/", None),
        ("2026-01-01 host.example:443 closed", CodePlace("host.example", 443)),
        ("", None),
    ],
)
def test_frames_and_lines_of_compilers(text: str, place: CodePlace | None) -> None:
    assert place_in(text) == place


@given(st.text(max_size=300))
def test_any_line_gives_a_place_or_none(text: str) -> None:
    found = place_in(text)
    assert found is None or (found.line > 0 and found.file in text)
