"""Folders of small images, one per class, that a model can tell apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("blue", "green", "red")


def write_images(folder: Path, each: int, *, size: tuple[int, int] = (40, 32), seed: int = 0) -> Path:
    """Write `each` images per class, noise that has most of one colour; return the folder."""
    random = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for image in range(each):
            pixels = random.integers(0, 120, (size[1], size[0], 3), dtype=np.uint8)
            pixels[:, :, 2 - number] += 100
            Image.fromarray(pixels).save(
                folder / name / f"{image}.{'png' if image % 2 else 'JPG'}", format=None
            )
    return folder
