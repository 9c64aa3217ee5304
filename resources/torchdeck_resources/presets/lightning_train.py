"""A Lightning module and trainer: a small network learns to tell two spirals apart. Nothing to download."""

import argparse
import math

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(count: int, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(count) % 2
    angle = torch.rand(count, generator=generator) * 3 * math.pi
    turned = angle + label * math.pi
    points = torch.stack([angle * turned.cos(), angle * turned.sin()], 1) / 10
    return TensorDataset(points + 0.01 * torch.randn(count, 2, generator=generator), label)


class Spirals(L.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        hidden = (nn.Linear(2, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.model = nn.Sequential(*hidden, nn.Linear(64, 2))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        points, label = batch
        loss = nn.functional.cross_entropy(self.model(points), label)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        points, label = batch
        answer = self.model(points)
        self.log("val_loss", nn.functional.cross_entropy(answer, label), sync_dist=True)
        self.log("val_accuracy", (answer.argmax(1) == label).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams["lr"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="samples a rank")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--devices", type=int, default=2, help="ranks a node, as distributed.nproc")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--folder", default="outputs")
    parser.add_argument("--ckpt_path", help="checkpoint to continue from")
    args = parser.parse_args()

    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(
        accelerator="auto",
        devices=args.devices,
        num_nodes=args.nodes,
        strategy="ddp",
        max_epochs=args.epochs,
        default_root_dir=args.folder,
        log_every_n_steps=5,
        callbacks=[ModelCheckpoint(every_n_epochs=1, save_top_k=2, monitor="val_loss", save_last=True)],
    )
    train = DataLoader(spirals(4_096, 1), args.batch_size, shuffle=True)
    validation = DataLoader(spirals(512, 2), args.batch_size)
    trainer.fit(Spirals(args.lr), train, validation, ckpt_path=args.ckpt_path)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
