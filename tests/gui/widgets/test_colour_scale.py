"""The colours of heat maps."""

import numpy as np
import pytest

from torchdeck_app.widgets.chart import levels, viridis


def test_the_colours_are_viridis() -> None:
    pyqtgraph = pytest.importorskip("pyqtgraph")
    wanted = pyqtgraph.colormap.get("viridis").getLookupTable(nPts=256, alpha=False).astype(int)
    found = viridis()
    mine = np.stack([(found >> shift) & 255 for shift in (16, 8, 0)], axis=1).astype(int)
    assert np.abs(mine - wanted).max() <= 8


def test_what_lies_outside_the_scale_has_the_colour_of_its_end() -> None:
    values = np.array([-1.0, 0.0, 0.5, 1.0, np.inf, -np.inf])
    assert levels(values, 0.0, 1.0).tolist() == [0, 0, 128, 255, 255, 0]
