"""What is drawn while a run is in progress."""

import pandas as pd

from retrofit_app.figures import LIGHT
from retrofit_app.figures.network import growing_network
from retrofit_app.figures.tuning import growing_lines
from retrofit_app.runs import BUNDLED

PLAN = {"names": ["one", "two", "head"], "widths": [[8, 8], [16, 16], [10, 10]], "fused": [8, 16, 10]}


def test_finished_levels_are_filled_and_the_one_in_work_is_framed():
    table = pd.read_parquet(BUNDLED / "kf-linear" / "levels.parquet").head(2)
    drawn = growing_network(*PLAN.values(), table, 2, LIGHT)
    *_, blocks, frame = drawn.figure.data
    first, second, third = blocks.marker.color
    assert third == LIGHT.paper and LIGHT.paper not in (first, second)  # only the third is empty
    assert blocks.text[2] == "" and blocks.text[0] == f"{100 * table['grouping share'].iloc[0]:.1f}"
    assert frame.x == (2,) and frame.y[0] > blocks.y[2]
    assert "2 of 3 levels are fused; level 3, head, is being fused." in drawn.alt
    ended = growing_network(*PLAN.values(), table, None, LIGHT).figure.data[-1]
    assert ended.y == (0.0,) and ended.marker.line.width == 0  # nothing pulses, and no number is struck through


def test_lines_end_at_the_last_epoch_and_their_axis_at_that_of_the_training():
    losses, colours = {"A": [2.0, 1.0], "B": []}, {"A": "#000000", "B": "#FFFFFF"}
    drawn = growing_lines(losses, {"A": [50.0, 75.0]}, 20, colours, LIGHT)
    assert "2 of 20 epochs: A 75.0\N{NO-BREAK SPACE}%" in drawn.alt.replace(" %", "\N{NO-BREAK SPACE}%")
    assert drawn.figure.layout.xaxis.range[1] > 20
    assert [trace.x[-1] for trace in drawn.figure.data] == [2, 2, 2, 2]  # loss and accuracy: a line and its end each
    assert "yaxis2" not in growing_lines({"": [0.5]}, {}, 3, {"": "#000000"}, LIGHT).figure.layout
