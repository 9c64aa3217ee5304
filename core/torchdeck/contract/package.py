"""The package torchdeck as it is installed, or as it was sent to a node: its version and its folder."""

import os.path

VERSION = "0.1.0"
FOLDER = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - imported with torchdeck, which is to be quick
