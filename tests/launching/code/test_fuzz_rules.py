"""Any bytes as .gitignore: files stay behind or not, or the rules are refused with the reason."""

from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.launching.code.ignore import GIT, RulesError
from torchdeck.launching.code.scan import scan
from torchdeck.plan.code_paths import IGNORE_FILE

PIECES = st.sampled_from(
    [
        *(
            "*",
            "**",
            "/",
            "?",
            "!",
            "#",
            "\\",
            "a",
            "b",
            "[a-z]",
            "[",
            "]",
            "[!a]",
            "[[:alpha:]]",
            "[]-a]",
            " ",
        ),
        *(
            "**/",
            "/**",
            "*a*a*a*a*a*a*a*a*a*a*b",
            "\u202e",
            "(",
            "{1,9}",
            "$",
            "^",
            "|",
            ".log",
            "[z-a]",
            "\\ ",
        ),
    ]
)
RULES = st.lists(st.lists(PIECES, max_size=12).map("".join), max_size=12).map("\n".join).map(str.encode)
NAMES = ("a" * 200, "b.log", "deep/a/a/a/b", "[", "x y", "deep/" + "ab" * 100)


def read_rules(content: bytes, place: Path) -> None:
    for name in NAMES:
        path = place / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in (GIT, IGNORE_FILE):
        (place / "work" / name).write_bytes(content)
    refused(lambda: scan(place / "work"), RulesError)


def test_any_rules() -> None:
    read_all(read_rules, RULES | RULES.flatmap(hostile.damaged) | st.binary(max_size=300))
