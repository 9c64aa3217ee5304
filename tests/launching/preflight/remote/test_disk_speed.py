"""What a measured disk means for checkpoints."""

import pytest

from support.values.machines import byte_gpt, plan
from torchdeck.config.schema import RunConfig
from torchdeck.launching.preflight.disk_space import checkpoint_bytes
from torchdeck.launching.preflight.remote.disk_speed import LONG, DiskSpeed, judged, planned_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("speed", "planned", "status", "said"),
    [
        (
            DiskSpeed(100 * MIB, 200 * MIB),
            1000 * MIB,
            "ok",
            "a checkpoint of about 1000.0 MiB takes 10 s to write, 5.0 s to read",
        ),
        (
            DiskSpeed(100 * MIB, 200 * MIB),
            0,
            "ok",
            "a checkpoint of 10.0 GiB would take 102 s to write, 51 s to read",
        ),
        (DiskSpeed(MIB, 1e9), int(LONG + 1) * MIB, "warning", "takes 5 min to write"),
        (DiskSpeed(MIB, 1e9), 0, "warning", "would take 3 h to write"),
        (DiskSpeed(0.0, 0.0), 0, "warning", "writes 0 B/s"),
        ("no answer within 20 s", MIB, "warning", "the speed of /ckpt is unknown: no answer"),
    ],
)
def test_a_sentence_about_checkpoints(speed: DiskSpeed | str, planned: int, status: str, said: str) -> None:
    check = judged("a", speed, "/ckpt", planned)
    assert (check.name, check.status, check.node) == ("disk speed", status, "a")
    assert said in check.what
    assert bool(check.fix) == (status == "warning")


def test_size_of_a_recipes_checkpoints_is_planned() -> None:
    """Of a script nothing is known."""
    config = byte_gpt(distributed={"nproc": 2, "devices": "cpu"})
    made = plan(config)
    assert planned_bytes(config, made, None, "localhost", {}) == checkpoint_bytes(config) > 0
    script = RunConfig.model_validate({"run": {"script": "train.py"}})
    assert planned_bytes(script, made, None, "localhost", {}) == 0
