"""Which run a run continues from."""

from pathlib import Path

import pytest

from support.values.checkpoint_files import save
from support.values.histories import ALIVE, agent_started, controller_journal, event, fold, started
from torchdeck.runs.folders.origin import Origin, origin_of
from torchdeck.runs.view import RunView

OLD = "20261121T000001Z-gpt-small-0a1b2c"


def view(resume: str, step: int | None = None, id_: str = "20261122T000001Z-new-0a1b2c") -> RunView:
    node = [agent_started(), started(resume=resume, resume_step=step), event("running", 102.0, attempt=1)]
    return fold(id_, controller_journal(), {"localhost": node}, {}, ALIVE, 200.0)


def test_it_is_named_by_the_manifest_of_the_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 10)
    found = origin_of(view(str(tmp_path / "step_00000010"), 10))
    assert found is not None
    assert found.step == 10
    assert found.run_id


def test_one_that_is_gone_is_known_by_where_it_lay(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / OLD / "checkpoints" / "step_00000010"
    assert origin_of(view(str(folder), 10)) == Origin(OLD, 10)
    assert Origin(OLD, 10).name == "gpt-small"
    assert Origin("r", 10).name == "r"


@pytest.mark.parametrize("resume", ["", "/x/step_00000010", f"/runs/{OLD}/checkpoints/step_00000010"])
def test_a_run_that_began_from_nothing_or_from_itself_has_none(resume: str) -> None:
    assert origin_of(view(resume, 10, id_=OLD)) is None
