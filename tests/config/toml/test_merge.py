"""Changes of two people to one run file, put together."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.starting_files import preset_text
from torchdeck.config.toml.edit import set_value
from torchdeck.config.toml.merge import ABSENT, MergeError, as_shown, differences, merge, merged_lines, same

BASE = """\
# first
name = "a"

[training]
steps = 10 # few
lr = 0.1
seed = 0

[launch]
queue = false
"""


def test_keys_that_differ_are_listed() -> None:
    found = differences(
        {"a": 1, "t": {"x": [1, 2], "gone": True}}, {"a": 1.0, "t": {"x": [1, 2], "new": "n"}}
    )
    assert [(item.name, item.before, item.after) for item in found] == [
        ("a", 1, 1.0),
        ("t.new", ABSENT, "n"),
        ("t.gone", True, ABSENT),
    ]
    assert as_shown(ABSENT) == "–"
    assert same(float("nan"), float("nan"))
    assert not same(True, 1)


def test_changes_of_other_lines_both_stay_as_written() -> None:
    """Comments of both survive."""
    mine = BASE.replace('name = "a"', 'name = "b" # mine')
    theirs = BASE.replace("queue = false", "queue = true # theirs")
    found = merge(BASE, mine, theirs)
    assert not found.conflicts
    assert '"b" # mine' in found.text
    assert "true # theirs" in found.text
    assert [item.name for item in found.taken] == ["launch.queue"]


def test_changes_of_neighbouring_lines_are_merged_by_key() -> None:
    mine = BASE.replace("steps = 10 # few", "steps = 20 # more")
    theirs = BASE.replace("lr = 0.1", "lr = 0.2")
    assert merged_lines(BASE, mine, theirs) is None
    found = merge(BASE, mine, theirs)
    assert not found.conflicts
    assert found.text == mine.replace("lr = 0.1", "lr = 0.2")


def test_a_key_changed_by_both_is_a_conflict() -> None:
    mine, theirs = BASE.replace("lr = 0.1", "lr = 0.3"), BASE.replace("lr = 0.1\n", "")
    found = merge(BASE, mine, theirs)
    (conflict,) = found.conflicts
    assert (conflict.name, conflict.base, conflict.mine, conflict.theirs) == ("training.lr", 0.1, 0.3, ABSENT)
    assert found.text == mine
    assert found.resolved({}) == mine
    assert found.resolved({conflict.path: "theirs"}) == theirs


def test_the_same_change_twice_is_none() -> None:
    changed = BASE.replace("lr = 0.1", "lr = 0.3")
    found = merge(BASE, changed, changed)
    assert (found.text, found.conflicts) == (changed, ())


def test_what_is_not_toml_is_refused() -> None:
    for texts in ((BASE, "a = ", BASE), (BASE, BASE, "= 1"), ("[", BASE, BASE)):
        with pytest.raises(MergeError, match="not TOML"):
            merge(*texts)


KEYS = (("training", "lr"), ("training", "steps"), ("launch", "queue"), ("distributed", "nproc"), ("name",))
CHANGES = st.dictionaries(st.sampled_from(KEYS), st.integers(100, 103), max_size=4)


@settings(deadline=None, max_examples=25)
@given(CHANGES, CHANGES)
def test_the_merge_says_what_both_have_said(
    ours: dict[tuple[str, ...], int], others: dict[tuple[str, ...], int]
) -> None:
    """Each key has the value of whoever changed it; where both did, a conflict says so."""
    base = preset_text("quickstart")

    def changed(text: str, changes: dict[tuple[str, ...], int]) -> str:
        for path, value in changes.items():
            text = set_value(text, path, value)
        return text

    found = merge(base, changed(base, ours), changed(base, others))
    assert {item.path for item in found.conflicts} == {
        path for path in ours.keys() & others.keys() if ours[path] != others[path]
    }
    wanted = changed(base, {**others, **ours})
    assert not differences(tomllib.loads(wanted), tomllib.loads(found.text))
    theirs = found.resolved({item.path: "theirs" for item in found.conflicts})
    assert not differences(tomllib.loads(changed(base, {**ours, **others})), tomllib.loads(theirs))
