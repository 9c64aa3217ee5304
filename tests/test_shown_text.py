"""Foreign text as it is shown: no character of it acts on a terminal or misleads, whatever it is."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.shown_text import REPLACEMENT, shown, shown_json, shown_line, shown_log

ALLOWED_SEQUENCE = re.compile(r"\x1b\[[0-9;]+m")
PIECES = st.sampled_from(
    [
        *(
            "\x1b",
            "\x1b[",
            "\x9b",
            "\x1b]52;c;aGk=",
            "\x07",
            "\x1b\\",
            "\x9c",
            "\x1b]8;;http://evil/",
            "\x1bP",
            "\x1b(",
        ),
        *("31m", "[31m", "0m", "38;5;200m", "48;2;1;2;3m", "8m", "5;31m", "2J", "1;1H", "?1049h", "6n", "m"),
        *(
            "\u202e",
            "\u2066",
            "\u200f",
            "\u200b",
            "\ufeff",
            "\u2028",
            "\udc80",
            "\x00",
            "\x08",
            "\x7f",
            "\x85",
        ),
        *("\r", "\r\n", "\n", "\t", "a", "é", "日本", "👩\u200d🚀", "<b>", "[red]", ";", "\U000e0041"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)


def is_safe(text: str) -> bool:
    """No control character but tab and line feed, no bidirectional control, and it can be encoded."""
    unseen = {"Cc", "Cs", "Zl", "Zp"}
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return all(
        character in "\t\n"
        or (
            unicodedata.category(character) not in unseen and unicodedata.bidirectional(character) not in bidi
        )
        for character in text
    )


@given(TEXTS)
def test_whatever_it_is_it_is_safe(text: str) -> None:
    assert is_safe(shown(text))
    assert is_safe(shown_line(text))
    assert "\n" not in shown_line(text)
    assert is_safe(shown_log(text))
    assert is_safe(ALLOWED_SEQUENCE.sub("", shown_log(text, colours=True)))
    for safe in (shown(text), shown_log(text), shown_log(text, colours=True)):
        safe.encode("utf-8")


@given(TEXTS)
def test_what_is_safe_stays_as_it_is(text: str) -> None:
    for make in (shown, shown_line, shown_log, shown_json, lambda text: shown_log(text, colours=True)):
        once = make(text)
        assert make(once) == once


@given(
    st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
)
def test_json_means_the_same(value: object) -> None:
    document = shown_json(json.dumps(value, ensure_ascii=False))
    assert is_safe(document)
    assert json.loads(document) == value


@pytest.mark.parametrize(
    ("text", "plain", "log", "coloured"),
    [
        ("loss 0.5 日本 é 👩\u200d🚀", None, None, None),
        ("\x1b[31mred\x1b[0m", "�[31mred�[0m", "red", "\x1b[31mred\x1b[0m"),
        ("\x1b[31mred", "�[31mred", "red", "\x1b[31mred\x1b[0m"),
        ("\x1b[1;8;5;32mx\x1b[m", "�[1;8;5;32mx�[m", "x", "\x1b[1;32mx\x1b[0m"),
        ("\x1b[38;5;200;48;2;1;2;3mx", "�[38;5;200;48;2;1;2;3mx", "x", "\x1b[38;5;200;48;2;1;2;3mx\x1b[0m"),
        ("a\x1b]52;c;aGk=\x07b", "a�]52;c;aGk=�b", "ab", "ab"),
        ("a\x1b]52;c;aGk=\x1b\\b", "a�]52;c;aGk=�\\b", "ab", "ab"),
        ("a\x1b]0;title", "a�]0;title", "a", "a"),
        ("\x1b]8;;http://evil/\x07text\x1b]8;;\x07", "�]8;;http://evil/�text�]8;;�", "text", "text"),
        ("\x1b[2J\x1b[1;1H\x1b[?1049hx", "�[2J�[1;1H�[?1049hx", "x", "x"),
        ("\x9b31mx\x9d52;c;aGk=\x9cy", "�31mx�52;c;aGk=�y", "xy", "\x1b[31mxy\x1b[0m"),
        ("\x1b\x1b[m[31mx", "��[m[31mx", "�[31mx", "�\x1b[0m[31mx"),
        ("py.\u202eexe", "py.�exe", "py.�exe", "py.�exe"),
        ("a\u200bb\ufeffc\u2028d", "a�b�c�d", "a�b�c�d", "a�b�c�d"),
        ("a\udc80b\x00c\x7fd\x85e", "a�b�c�d�e", "a�b�c�d�e", "a�b�c�d�e"),
        ("one\r\ntwo\tthree\rfour", "one\ntwo\tthree�four", "one\ntwo\tthree�four", "one\ntwo\tthree�four"),
    ],
)
def test_values(text: str, plain: str | None, log: str | None, coloured: str | None) -> None:
    assert REPLACEMENT == "�"
    assert shown(text) == (text if plain is None else plain)
    assert shown_log(text) == (text if log is None else log)
    assert shown_log(text, colours=True) == (text if coloured is None else coloured)


def test_it_takes_time_by_the_length() -> None:
    """Of a line of a megabyte that was written to take long."""
    for piece in (
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1b[0;",
        "\x9d",
        "\x1b[" + "1;" * 1000 + "m",
        "\u202e",
        "\x1b ",
    ):
        text = piece * (1_000_000 // len(piece))
        assert len(shown(text)) <= len(text)
        assert is_safe(ALLOWED_SEQUENCE.sub("", shown_log(text, colours=True)))
