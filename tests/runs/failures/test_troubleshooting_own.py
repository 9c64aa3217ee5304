"""Return the advice on an exception in the user's own code."""

from __future__ import annotations

import pytest

from torchdeck.runs.failures.own_code import OwnException, how_to_go_on, own_exception
from torchdeck.runs.run_state import Failure

MINE = """Traceback (most recent call last):
  File "/home/a/work/train.py", line 3, in <module>
    main()
  File "/home/a/work/parts/data.py", line 12, in load
    return torch.stack(found["x"])
  File "/opt/venv/lib/python3.12/site-packages/torch/functional.py", line 9, in stack
    raise TypeError("no")
torch.odd.TypeError: no
"""
OURS = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/x/shipped/1a/torchdeck/distributed/entry.py", line 40, in main
    run()
RuntimeError: of ours
"""


def failed(traceback: str, message: str = "TypeError: no") -> Failure:
    return Failure(1, 1, None, message, traceback)


def test_the_last_place_in_ones_own_code_counts() -> None:
    """It called what raised; the exception goes by its own name."""
    assert own_exception(failed(MINE)) == OwnException("TypeError", "/home/a/work/parts/data.py", 12)
    in_drafts = MINE.replace("/home/a/work", "/home/a/torchdeck")
    found = own_exception(failed(in_drafts))
    assert found is not None
    assert (found.name, found.line) == ("data.py", 12)


@pytest.mark.parametrize("traceback", ["", OURS, "Traceback\n  here"])
def test_what_leads_through_none_of_it_says_nothing(traceback: str) -> None:
    assert own_exception(failed(traceback)) is None


def test_it_is_said_how_to_go_on() -> None:
    found = OwnException("KeyError", "/home/a/fail.py", 3)
    assert how_to_go_on(found, "/home/a/work", "") == (
        "KeyError at line 3 of fail.py: fix it there. Then clone the run. No checkpoint was saved."
    )
    assert how_to_go_on(found, "/home/a/work", "step 1,200").endswith("or resume it from step 1,200.")


def test_a_resume_of_a_copy_is_not_said_to_mend_anything() -> None:
    """The run's own copy of the code stays as it was."""
    copied = OwnException("KeyError", "/home/a/work/fail.py", 3)
    assert "own copy of the code, which does not change" in how_to_go_on(copied, "/home/a/work", "step 40")
    assert "own copy" not in how_to_go_on(copied, "", "step 40")
