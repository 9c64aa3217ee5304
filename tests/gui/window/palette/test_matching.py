"""Matching in the command palette: by values, and what holds for any text."""

from hypothesis import given
from hypothesis import strategies as st

from torchdeck_app.window.palette_items import keywords, match, ranked


def best(query: str, *texts: str, recent: tuple[str, ...] = ()) -> list[str]:
    return [key for key, _ in ranked(query, ((text, text, "", ()) for text in texts), recent)]


def test_letters_in_order_fit_and_others_do_not() -> None:
    assert match("cpl", "Command palette") is not None
    assert match("xyz", "Command palette") is None
    assert match("ettelap", "Command palette") is None


def test_positions_are_of_the_letters_that_fit() -> None:
    found = match("pal", "Command palette")
    assert found is not None
    assert [("Command palette")[at] for at in found.positions] == ["p", "a", "l"]
    assert found.positions == (8, 9, 10)


def test_a_word_in_one_piece_comes_before_strewn_letters_and_a_words_start_before_its_middle() -> None:
    assert best("run", "Rerun all", "Run", "Resume unfinished now") == [
        "Run",
        "Rerun all",
        "Resume unfinished now",
    ]
    assert best("run", "prune", "the run") == ["the run", "prune"]


def test_words_may_come_in_any_order() -> None:
    assert best("gpt big", "big-gpt", "small-gpt") == ["big-gpt"]


def test_what_is_said_beside_fits_only_whole() -> None:
    assert match("launch", "Check", "Launch") is not None
    assert match("lnch", "Check", "Launch") is None


def test_recent_ones_come_first_among_equals_and_where_nothing_is_typed() -> None:
    assert best("", "a", "b", "c", recent=("c", "b")) == ["c", "b", "a"]
    assert best("stop", "stop a", "stop b", recent=("stop b",)) == ["stop b", "stop a"]
    assert best("stop", "stop", "s t o p", recent=("s t o p",)) == ["stop", "s t o p"]


@given(st.text(), st.text())
def test_positions_are_in_the_text_and_ascend(query: str, text: str) -> None:
    found = match(query, text)
    if found is not None:
        assert list(found.positions) == sorted(set(found.positions))
        assert all(0 <= at < len(text) for at in found.positions)


@given(st.text(alphabet="abcXYZ -", min_size=1))
def test_every_text_fits_itself(text: str) -> None:
    assert match(text, text) is not None


def test_other_words_come_after_the_name_and_before_letters_strewn_over_another() -> None:
    texts = [("a", "Delete", "Runs", {"remove", "erase"}), ("b", "Remove marks", "Launch", set[str]())]
    assert [key for key, _ in ranked("remove", texts, ())] == ["b", "a"]
    strewn = [
        ("b", "Export a script for sbatch", "Launch", set[str]()),
        ("a", "Add a node", "Nodes", {"ssh"}),
    ]
    assert [key for key, _ in ranked("ssh", strewn, ())] == ["a", "b"]
    assert [key for key, _ in ranked("runs rem", texts, ())] == ["a"]
    assert not ranked("emo", [texts[0]], ()), "a keyword is found by its beginning"


def test_actions_are_found_by_what_they_do_and_by_other_words_for_it() -> None:
    found = keywords("Import nodes", "Import the hosts of ~/.ssh/config as nodes")
    assert {"ssh", "hosts", "config"} <= found
    assert "nodes" not in found, "that is in its name"
    assert "the" not in found
    assert {"remove", "erase"} <= keywords("Delete", "")
