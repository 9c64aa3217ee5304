"""What a process is called for people."""

import pytest

from torchdeck.nodes.activity import process_name


@pytest.mark.parametrize(
    ("name", "command", "shown"),
    [
        ("firefox", ["/usr/bin/firefox", "-m", "x"], "firefox"),
        ("python", ["python", "/home/a/train.py", "--lr", "1"], "python train.py"),
        (
            "python3.12",
            ["python3.12", "-u", "-m", "torch.distributed.run", "x"],
            "python3.12 -m torch.distributed.run",
        ),
        ("python", ["python", "-X", "dev", "-W", "error", "train.py"], "python train.py"),
        ("python", ["python", "-c", "import time; time.sleep(9)"], "python -c …"),
        ("python", ["python"], "python"),
        ("python", [], "python"),
        ("python", ["python", "-m"], "python -m"),
        ("pythonista", ["pythonista", "a.py"], "pythonista"),
    ],
)
def test_a_python_is_called_by_what_it_runs(name: str, command: list[str], shown: str) -> None:
    assert process_name(name, command) == shown
