"""Any bytes as what a rank printed: lines that can be shown, and numbers or none."""

from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.logs.line_pattern import LinePattern
from torchdeck.runs.logs.merged import MergedLog
from torchdeck.runs.logs.search import ERRORS, LineSearch
from torchdeck.runs.rank_output import OutputFollower
from torchdeck.shown_text import shown
from torchdeck.trainers.text.line import parse_line

PIECES = st.sampled_from(
    [
        *(
            "step",
            "loss",
            "=",
            ": ",
            "{",
            "}",
            "'",
            "|",
            "%",
            "[",
            "]",
            "/",
            "it/s",
            "nan",
            "inf",
            "1e999",
            "9" * 400,
        ),
        *(
            "9" * 5000,
            "-",
            "0.5",
            "epoch",
            "\r",
            "\n",
            "\t",
            "\x1b[31m",
            "\x1b]52;c;",
            "\x07",
            "\u202e",
            "\x9b",
        ),
        *("Error: ", "Traceback (most recent call last)", "{'loss': ", "100%|####|", "a" * 5000, "(" * 500),
    ]
)
OUTPUT = st.lists(PIECES, max_size=30).map("".join).map(str.encode)


def read_lines(content: bytes, place: Path) -> None:
    layout = RunLayout(place)
    path = layout.attempt(1).rank(0).stdout
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    log = MergedLog(layout)
    while log.advance():
        pass
    for line in log.read(0, 100):
        assert shown(line.text) == line.text
    search = LineSearch(log, LinePattern(ERRORS, match_case=True))
    while not search.is_over and search.at < len(log):
        search.step()
    for printed in OutputFollower(layout).read_rest():
        found = parse_line(printed.text)
        assert found is None or all(isinstance(number, float) for number in found.values.values())


def test_any_output() -> None:
    read_all(read_lines, OUTPUT | OUTPUT.flatmap(hostile.damaged) | st.binary(max_size=500))
