"""The run file that a command line amounts to."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.loader import config_from_dict, load_config
from torchdeck.config.starting_files import run_file_table, run_file_text

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@settings(deadline=None)
@given(
    st.lists(TEXT, max_size=4),
    st.dictionaries(st.from_regex(r"\A[A-Z]{1,5}_V\Z"), TEXT, max_size=3),
    st.floats(1e-9, 1e9),
)
def test_reading_it_gives_the_same_config(args: list[str], env: dict[str, str], delay: float) -> None:
    """Whatever the arguments hold, the file says the same as the command line did."""
    import tempfile

    table: dict[str, Any] = {
        "run": {"script": "a b.py", "args": args, "env": env},
        "launch": {"restart_delay": min(delay, 86_400), "queue": True},
        "distributed": {"rendezvous": {"port": 29511}},
        "telemetry": {"patterns": [r"loss=(?P<loss>\S+)"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        asked = config_from_dict(table, folder, name="train")
        path = Path(folder, "other.toml")
        path.write_text(run_file_text(run_file_table(asked)), encoding="utf-8", newline="")
        assert load_config(path).config == asked
