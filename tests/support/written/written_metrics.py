"""Files as the real packages write them: run by the trainers' Python, in an empty folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STEPS = range(0, 50, 10)


def loss_at(step: int) -> float:
    """A value that no float32 has."""
    return 2.0 / (step + 3)


def main(folder: Path) -> None:
    _wandb(folder)
    _mlflow(folder)
    _lightning(folder)
    _hugging_face(folder)
    _titan(folder)


def _wandb(folder: Path) -> None:
    import wandb

    run = wandb.init(project="tiny", dir=str(folder), mode="offline", settings=wandb.Settings(silent=True))
    for step in STEPS:
        run.log({"train/loss": loss_at(step), "nested": {"a": 1.5}, "note": "text"}, step=step)
    run.log({"bad": float("nan"), "train/global_step": 77}, step=41)
    run.log({"names": {f"name{number:05}": float(number) for number in range(3000)}}, step=42)
    run.finish()


def _mlflow(folder: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri(f"file:{folder}/mlruns")
    with mlflow.start_run():
        for step in STEPS:
            mlflow.log_metric("train/loss", loss_at(step), step=step)


def _lightning(folder: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(folder, flush_logs_every_n_steps=1)
    for step in STEPS:
        logger.log_metrics({"train_loss": loss_at(step), "epoch": step // 20}, step)
        if step == 20:
            logger.log_metrics({"val_loss": 9.0, "epoch": 1}, step)
    logger.save()


def _hugging_face(folder: Path) -> None:
    from transformers.trainer_callback import TrainerState

    history: list[dict[str, float]] = []
    for step in STEPS:
        history.append({"loss": loss_at(step), "learning_rate": 1e-5, "epoch": step / 100, "step": step})
        if step == 20:
            history.append({"eval_loss": 1 / 3, "epoch": 0.2, "step": step})
        place = folder / f"checkpoint-{step}"
        place.mkdir()
        state = TrainerState(global_step=step, max_steps=300, epoch=step / 100, log_history=history)
        state.save_to_json(str(place / "trainer_state.json"))


def _titan(folder: Path) -> None:
    from torchtitan.observability import structured_logger as log

    log.init_structured_logger("training", str(folder), rank=0)
    for step in (1, 2):
        log.set_step(step)
        with log.log_trace_span("step"), log.log_trace_span("fwd_bwd"):
            log.log_trace_scalar({"tokens": 64 * step})
        with log.log_trace_span("eval"):
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]))
