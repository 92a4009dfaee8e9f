"""A module of a user's own, as a file; the fixture `mynet` writes it."""

#: A network over the rows of an image whose logits are one of two outputs; a plain one; what is not to be called.
MYNET = """
from subprocess import run  # noqa: F401 - imported here, not defined here
from torch import nn


class Rows(nn.Module):
    def __init__(self, channels, size, classes, width=8):
        super().__init__()
        self.flatten = nn.Flatten(1, 2)
        self.conv = nn.Conv1d(channels * size, width, 3, padding=1)
        self.relu = nn.ReLU()
        self.out = nn.Linear(width * size, classes)

    def forward(self, x):
        x = self.relu(self.conv(self.flatten(x)))
        return {"logits": self.out(x.flatten(1)), "features": x}


class Small(nn.Module):
    def __init__(self, channels, num_classes, width):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.out = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.out(self.pool(self.relu(self.conv(x))).flatten(1))


def rows(channels, size, classes, width=8):
    return Rows(channels, size, classes, width)


def small(channels, num_classes, width=6):
    return Small(channels, num_classes, width)


def number():
    return 3
"""
