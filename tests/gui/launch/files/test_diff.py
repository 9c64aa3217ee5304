"""What changed between two run files, key by key."""

from __future__ import annotations

import pytest

from torchdeck_app.launch.files.diff_dialog import by_key

BEFORE = """
name = "a"
[run]
recipe = "byte-gpt"
args = []
[distributed]
devices = "auto"
nproc = 2
[limits]
min_free_disk = "1 GiB"
[training]
steps = 10
clip = 1
"""
AFTER = """
name = "a"
[run]
recipe = "byte-gpt"
[distributed]
nproc = 3
[limits]
min_free_disk = "1024 MiB"
[training]
steps = 10
clip = 1.0
"""


def test_equal_in_effect_is_no_difference() -> None:
    """A default that is written out, a size in another unit, 1 for 1.0."""
    assert by_key(BEFORE, AFTER) == [("distributed.nproc", "2", "3")]
    assert by_key(AFTER, BEFORE) == [("distributed.nproc", "3", "2")]


@pytest.mark.parametrize(
    ("before", "after", "row"),
    [
        ("[run]\nargs = ['a']", "", ("run.args", '["a"]', "– (default [])")),
        ("", "[launch]\nqueue = true", ("launch.queue", "– (default false)", "true")),
        ("[no]\nkey = 1", "[no]\nkey = true", ("no.key", "1", "true")),
        ("[no]\nkey = 1", "", ("no.key", "1", "–")),
    ],
)
def test_what_differs_stands_there(before: str, after: str, row: tuple[str, str, str]) -> None:
    assert by_key(before, after) == [row]
