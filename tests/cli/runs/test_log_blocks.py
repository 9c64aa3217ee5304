"""Output of ranks that is printed in blocks is the same as line by line."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from support.values.made_runs import make_run
from torchdeck.cli.output import write_log_line
from torchdeck.cli.runs.logs import write_log_block
from torchdeck.runs.rank_output import LONGEST_LINE, OutputFollower, as_printed

LINES = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.sampled_from(
            [b"plain", b"\ta\tb", b"\x1b[31mred", b"\x1b]52;c;aGk=\x07", b"10%\r20%", b"crlf\r", b"\xe2\x82"]
        ),
    ).map(lambda line: line.replace(b"\n", b"")),
    min_size=1,
    max_size=8,
)


@given(LINES, st.sampled_from(["", "[rank 0] "]))
@example([b"\xe2\x82", b"\xac"], "[rank 0] ")
def test_a_block_is_shown_as_its_lines(lines: list[bytes], head: str) -> None:
    """Whatever a rank prints: colours stay, and what acts on a terminal is removed."""
    block, single = io.StringIO(newline=""), io.StringIO(newline="")
    write_log_block(head, b"".join(line + b"\n" for line in lines), block)
    for line in lines:
        write_log_line(head, as_printed(line), single)
    assert block.getvalue() == single.getvalue()


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"x" * LONGEST_LINE]), max_size=8))
def test_blocks_have_all_lines(pieces: list[bytes]) -> None:
    """Also an unfinished last one, and pieces of one without an end."""
    with tempfile.TemporaryDirectory() as folder:
        layout = make_run(Path(folder), [], output={(1, 3, "stdout"): ""})
        layout.attempt(1).rank(3).stdout.write_bytes(b"".join(pieces))
        lines = [line.text for line in OutputFollower(layout).read_rest()]
        blocks = list(OutputFollower(layout).read_rest_blocks())
    assert {rank for rank, _ in blocks} <= {3}
    assert [as_printed(line) for _, block in blocks for line in block.split(b"\n")[:-1]] == lines
