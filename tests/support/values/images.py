"""Turning and scaling a image pixel by pixel: what every framework's augmentation must give."""

import math

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float64]


def turned(image: Image, degrees: float, scale: float) -> Image:
    """One channel, shape (height, width), turned counter-clockwise about its middle; bilinear, 0 outside."""
    height, width = image.shape
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    cosine, sine = math.cos(math.radians(degrees)) / scale, math.sin(math.radians(degrees)) / scale
    result = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            y, x = row - middle_y, column - middle_x
            result[row, column] = _bilinear(
                image, middle_y + sine * x + cosine * y, middle_x + cosine * x - sine * y
            )
    return result


def _bilinear(image: Image, y: float, x: float) -> float:
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                total += float(image[row, column]) * (1 - abs(y - row)) * (1 - abs(x - column))
    return total
