"""The sitecustomize that is put before a script's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchdeck.trainers.inside as inside
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state

STARTUP = Path(inside.__file__).parent / "startup"
BUNDLE = Path(inside.__file__).parents[3]
SHOW = (
    "import sys; hooks = [type(f).__name__ for f in sys.meta_path]; "
    "print('ImportHook' in hooks, getattr(sys.modules.get('sitecustomize'), '__file__', None))"
)


def started(
    *folders: Path, program: str = SHOW, by_shim: bool = False, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python with these folders on its module path; as the child of a shell, as a rank is."""
    python = [sys.executable, "-c", program]
    shim = ["/bin/sh", "-c", 'echo $$ >"$HOLDER"; "$@"; exit $?', "sh", *python]
    path = ":".join(map(str, folders))
    return subprocess.run(
        shim if by_shim else python,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def as_rank(folder: Path) -> dict[str, str]:
    """Variables of rank 1, whose shim's pid is written where a rank shim writes it."""
    rank = folder / "run" / "attempts" / "1" / "ranks" / "1"
    rank.mkdir(parents=True)
    place = {"RANK": "1", "TORCHDECK_ATTEMPT": "1", "TORCHDECK_RUN_DIR": str(folder / "run")}
    return {**place, "TORCHDECK_RUN_ID": "r", "HOLDER": str(rank / "holder.pid")}


def test_only_the_rank_itself_waits_for_trainers(tmp_path: Path) -> None:
    """Neither a process without a rank's variables, nor one that a rank starts with them."""
    rank = as_rank(tmp_path)
    assert started(STARTUP, BUNDLE, by_shim=True, **rank).stdout.startswith("True")
    assert started(STARTUP, BUNDLE).stdout.startswith("False")
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW!r}])"
    done = started(STARTUP, BUNDLE, program=child, by_shim=True, **rank)
    assert done.stdout.startswith("False"), done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.users = 1; sys.path.append('/added')",
        "raise RuntimeError('the users own mistake')",
        "import there_is_no_such_module",
        None,
    ],
)
def test_the_next_sitecustomize_is_imported_as_without_ours(text: str | None, tmp_path: Path) -> None:
    """Also one that fails: the process says the same and continues."""
    if text is not None:
        (tmp_path / "sitecustomize.py").write_text(text)
    ignored = [str(STARTUP), str(BUNDLE)]
    show = (
        f"import sys; print(getattr(sys, 'users', 0), [e for e in sys.path if e not in {ignored}], "
        "getattr(sys.modules.get('sitecustomize'), '__file__', 0))"
    )
    plain = started(tmp_path, program=show)
    ours = started(STARTUP, BUNDLE, tmp_path, program=show, by_shim=True, **as_rank(tmp_path))
    own = f"{STARTUP / 'sitecustomize.py'}\n"
    expected = plain.stdout if text is not None else plain.stdout.removesuffix("0\n") + own
    assert ours.stdout == expected
    assert (ours.stderr, ours.returncode) == (plain.stderr, plain.returncode)


def test_a_bundle_that_cannot_be_imported_costs_nothing_but_the_callbacks(tmp_path: Path) -> None:
    broken = tmp_path / "torchdeck"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('broken')")
    rank = as_rank(tmp_path)
    done = started(STARTUP, tmp_path, by_shim=True, **rank)
    assert (done.returncode, done.stderr, done.stdout[:5]) == (0, "", "False")
    state = read_inside_state(Path(rank["HOLDER"]).with_name("inside.json"))
    assert state == InsideState(failures=("at the start: RuntimeError: broken",))


def test_a_process_without_a_rank_waits_for_one_to_be_given(tmp_path: Path) -> None:
    """Of the run, and not of a rank: what a rank starts has its variables."""
    ours = {name: value for name, value in as_rank(tmp_path).items() if name.startswith("TORCHDECK")}
    assert started(STARTUP, BUNDLE, by_shim=False, **ours).stdout.startswith("True")
    assert started(STARTUP, BUNDLE, by_shim=False, RANK="1", **ours).stdout.startswith("False")
