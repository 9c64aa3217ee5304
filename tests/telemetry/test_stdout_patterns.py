"""Numbers out of what widely used scripts print."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.telemetry.stdout_patterns import LINE_LIMIT, parse_line

TITAN = (
    "[titan] 2025-06-01 10:00:00,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.1234  "
    "\x1b[38;2;180;60;0mgrad_norm:  1.6822  \x1b[38;2;54;234;195mmemory: 11.42GiB(14.47%)  "
    "\x1b[34mtps: 1,234  \x1b[36mtflops: 1.20  \x1b[35mmfu: 5.10%\x1b[39m"
)
LIGHTNING = "Epoch 2:  10%|█         | 1/10 [00:00<00:01,  9.50it/s, v_num=0, train_loss=2.30, val_acc=0.5]"

KNOWN = {
    "nanoGPT iteration": (
        "iter 100: loss 2.3412, time 12.34ms, mfu 5.67%",
        (100, {"loss": 2.3412, "time_ms": 12.34, "mfu_percent": 5.67}),
    ),
    "nanoGPT evaluation": (
        "step 500: train loss 2.1000, val loss 2.2000",
        (500, {"train_loss": 2.1, "val_loss": 2.2}),
    ),
    "Trainer": (
        "{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}",
        (None, {"loss": 0.5, "grad_norm": 1.25, "learning_rate": 5e-05, "epoch": 0.1}),
    ),
    "Trainer with texts": (
        "{'eval_loss': '0.4812', 'eval_runtime': '1.2', 'epoch': '1'}",
        (None, {"eval_loss": 0.4812, "eval_runtime": 1.2, "epoch": 1.0}),
    ),
    "JSON line": ('{"step": 10, "loss": 0.5, "note": "x"}', (10, {"loss": 0.5})),
    "Lightning bar": (LIGHTNING, (21, {"train_loss": 2.3, "val_acc": 0.5, "epoch": 2.0})),
    "Lightning bar drawn again": (
        "\r".join(LIGHTNING.replace(" 1/10", f" {done}/10") for done in (1, 2, 3)) + "\r",
        (23, {"train_loss": 2.3, "val_acc": 0.5, "epoch": 2.0}),
    ),
    "Lightning rich bar": (
        "Epoch 1/9 ━━━━━━━━━╸━━━━━ 10/100 0:00:01 • 0:00:09 9.5it/s v_num: 0.000 train_loss: 2.300",
        (110, {"train_loss": 2.3, "epoch": 1.0}),
    ),
    "torchtitan": (
        TITAN,
        (
            10,
            {
                "loss": 7.1234,
                "grad_norm": 1.6822,
                "memory_gib": 11.42,
                "tps": 1234.0,
                "tflops": 1.2,
                "mfu_percent": 5.1,
            },
        ),
    ),
    "tqdm postfix": ("50%|███  | 5/10 [00:01<00:01, 4.9it/s, loss=0.5]", (5, {"loss": 0.5})),
    "MNIST example": (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301000",
        (None, {"loss": 2.301, "epoch": 1.0}),
    ),
    "ImageNet example": (
        "Epoch: [0][ 10/100]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)",
        (None, {"time": 0.5, "loss": 6.9, "epoch": 0.0}),
    ),
    "tutorial": ("Epoch [1/5], Step [100/600], Loss: 0.5", (100, {"loss": 0.5, "epoch": 1.0})),
    "plain colon": ("loss: 1.23", (None, {"loss": 1.23})),
    "plain equals": ("loss=1.23 step=5", (5, {"loss": 1.23})),
    "plain space": ("step 10 loss 3.2", (10, {"loss": 3.2})),
    "capital": ("Step 1,000 | Loss: 1e-3", (1000, {"loss": 0.001})),
    "tensor": ("loss: tensor(2.30, device='cuda:0', grad_fn=<NllLossBackward0>)", (None, {"loss": 2.3})),
    "path as name": ("val/loss: 0.5 global_step=7", (7, {"val/loss": 0.5})),
    "thousands": ("loss 1,234.5", (None, {"loss": 1234.5})),
    "infinite": ("step 3 loss -inf", (3, {"loss": -math.inf})),
    "no loss but a step": ("2024-01-02 12:00:00 step=3 acc=0.9", (3, {"acc": 0.9})),
    "our own trainer": ("step 3/40 loss 5.5 lr 0.001 tokens/s 1234", (3, {"loss": 5.5, "lr": 0.001})),
}


@pytest.mark.parametrize(("line", "reading"), KNOWN.values(), ids=list(KNOWN))
def test_known_formats(line: str, reading: tuple[int | None, dict[str, float]]) -> None:
    """Each known format gives its step and its numbers, and nothing else."""
    assert parse_line(line) == reading
    assert parse_line(f"{line}\r\n") == reading


def test_loss_that_became_nan() -> None:
    """NaN is a number that a person wants to see."""
    for line in ("loss: nan", "iter 5: loss nan, time 1.0ms", "{'loss': nan, 'epoch': 0.1}"):
        reading = parse_line(line)
        assert reading is not None
        assert math.isnan(reading[1]["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "using loss=mse, lr=0.1, batch=32",
        "lossless compression: 5",
        "saved step 100 to /x/y",
        "step 5",
        "time: 12:30:45",
        "loss_version: 1.2.3",
        "torch 2.13.0, step.py:30",
        "{'lr': 0.1, 'batch': 32}",
        "{'model': {'layers': 2}}",
        "listening for iterations on port=29500 rank=0",
        "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 100.00it/s]",
    ],
)
def test_lines_without_metrics(line: str) -> None:
    """What merely looks like it gives nothing."""
    assert parse_line(line) is None


@settings(deadline=None)
@given(st.text(max_size=200) | st.text("loss:=step iter0123456789.,e-+{}'\"[]|/%\r\x1b[mnaif", max_size=200))
def test_any_line_gives_a_reading_or_none(line: str) -> None:
    """Any text is survived; what comes out is named numbers and a whole step."""
    reading = parse_line(line)
    if reading is not None:
        step, metrics = reading
        assert step is None or isinstance(step, int)
        assert metrics
        assert all(name and isinstance(value, float) for name, value in metrics.items())


PIECES = [
    "loss",
    "loss: ",
    "loss=1",
    "step ",
    "step=1 ",
    "1",
    "1,111",
    "1.",
    "e-",
    "|",
    "━",
    "a_",
    "a.b/",
    "{'",
    "': 1, '",
]
PIECES += [
    "train ",
    "train loss ",
    "\x1b[",
    "x=1 ",
    "epoch ",
    " ",
    "-",
    "1/1",
    "%",
    "(",
    "nan",
    "tensor(",
    "\r",
    "'",
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.lists(st.sampled_from(PIECES), max_size=3)
)
def test_no_line_takes_long(repeated: list[str], end: list[str]) -> None:
    """Long lines made to almost match cost milliseconds, not a power of their length."""
    unit = "".join(repeated)
    line = unit * (20000 // len(unit) + 1) + "".join(end)
    begun = time.thread_time()
    parse_line(line)
    assert time.thread_time() - begun < 0.5


def test_far_end_of_a_line_is_not_looked_at() -> None:
    """What stands behind the limit is not read: a line of megabytes costs no more than one of 4,096."""
    assert parse_line("x" * LINE_LIMIT + " loss: 1.0") is None
    assert parse_line("loss: 1.0 " + "x" * 10**6) == (None, {"loss": 1.0})
