"""ResNet (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016) with GroupNorm.

Unlike batch statistics, those of GroupNorm (Wu and He, "Group Normalization", ECCV 2018) are independent of
how samples are distributed over ranks. Parameters are named as in torchvision and timm
(`layer1.0.conv1.weight`, `fc.bias`), so weights of their ResNets with GroupNorm fit, such as timm's
`resnet50_gn`. As in these, the second convolution of a bottleneck has its stride.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 32
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
"""Depth → blocks of each stage."""
_BOTTLENECK_FROM = 50
_EXPANSION = 4


class BasicBlock(nn.Module):
    """Images (batch, before, height, width) → (batch, after, height / stride, width / stride)."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(before, width, 3, stride)
        self.bn1 = nn.GroupNorm(GROUPS, width)
        self.conv2 = _convolution(width, width, 3, 1)
        self.bn2 = nn.GroupNorm(GROUPS, width)
        self.downsample = _downsample(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(x)))
        inner = self.bn2(self.conv2(inner))
        return functional.relu(inner + self.downsample(x))


class Bottleneck(nn.Module):
    """As `BasicBlock`, with four times as many channels after as inside."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = _EXPANSION * width
        self.conv1 = _convolution(before, width, 1, 1)
        self.bn1 = nn.GroupNorm(GROUPS, width)
        self.conv2 = _convolution(width, width, 3, stride)
        self.bn2 = nn.GroupNorm(GROUPS, width)
        self.conv3 = _convolution(width, after, 1, 1)
        self.bn3 = nn.GroupNorm(GROUPS, after)
        self.downsample = _downsample(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(x)))
        inner = functional.relu(self.bn2(self.conv2(inner)))
        inner = self.bn3(self.conv3(inner))
        return functional.relu(inner + self.downsample(x))


class ResNet(nn.Module):
    """Images (batch, 3, height, width) → logits (batch, classes).

    Args:
        depth: a key of `STAGES`.
        classes: number of classes.
        width: channels inside the blocks of the first stage, a multiple of 32.
    """

    def __init__(self, *, depth: int, classes: int, width: int = 64) -> None:
        super().__init__()
        block, expansion = (Bottleneck, _EXPANSION) if depth >= _BOTTLENECK_FROM else (BasicBlock, 1)
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.GroupNorm(GROUPS, width)
        before = width
        for stage, count in enumerate(STAGES[depth]):
            inside = width * 2**stage
            stages = []
            for number in range(count):
                stages.append(block(before, inside, 2 if stage and not number else 1))
                before = expansion * inside
            self.add_module(f"layer{stage + 1}", nn.Sequential(*stages))
        self.fc = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @property
    def blocks(self) -> list[nn.Module]:
        """All blocks, in order."""
        return [block for stage in range(4) for block in self.get_submodule(f"layer{stage + 1}").children()]

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))  # type: ignore[no-any-return]


def _convolution(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)


def _downsample(before: int, after: int, stride: int) -> nn.Module:
    """Return the module that a block's input passes before it is added."""
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(_convolution(before, after, 1, stride), nn.GroupNorm(GROUPS, after))
