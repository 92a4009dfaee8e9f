"""Events, cancellation, and looking names up."""

import pytest

from retrofit_core.system.monitor import Cancelled, Monitor


def test_each_reports_before_every_item():
    events = []
    seen = list(Monitor(events.append).each("step", ["a", "b"], phase="fit"))
    assert seen == ["a", "b"]
    assert events == [{"kind": "step", "index": i, "total": 2, "phase": "fit"} for i in range(2)]
    assert list(Monitor().each("step", iter("ab"))) == ["a", "b"]


def test_cancelling_stops_between_two_items():
    done = []
    monitor = Monitor(cancelled=lambda: len(done) == 2)
    with pytest.raises(Cancelled, match="cancelled on request"):
        for item in monitor.each("step", range(5)):
            done.append(item)  # noqa: PERF402 - the loop's body is what cancels
    assert done == [0, 1]
