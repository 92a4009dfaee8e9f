"""Where a run stands, from the events of its record."""

import json

import pytest

from retrofit_app.runs import progress


def write(folder, *events, start=1000.0):
    with (folder / "events.jsonl").open("a") as file:
        for second, event in enumerate(events):
            file.write(json.dumps({"time": start + second, **event}) + "\n")


TRAINING = [
    {"kind": "phase", "name": "training", "parent": 0, "parents": 2},
    {"kind": "epoch", "epoch": 1, "epochs": 4, "loss": 2.0, "accuracy": None},
    {"kind": "epoch", "epoch": 2, "epochs": 4, "loss": 1.0, "accuracy": None},
]
FUSION = [
    {"kind": "phase", "name": "importance", "parent": 0},
    {"kind": "level", "index": 0, "total": 4, "name": "first"},
    {"kind": "phase", "name": "grouping", "level": "first"},
    {"kind": "level", "index": 1, "total": 4, "name": "second"},
    {"kind": "epoch", "index": 1, "total": 10, "loss": 0.5, "validation": 0.6},
    {"kind": "epoch", "index": 2, "total": 10, "loss": 0.25, "validation": 0.3},
]


def test_training_then_levels(tmp_path):
    known = progress.Progress()
    assert progress.follow(tmp_path, known) is known  # nothing is written yet
    write(tmp_path, *TRAINING)
    progress.follow(tmp_path, known)
    assert (known.stage, known.loss, known.done) == ("training", 1.0, 0.25)
    assert known.left(1004.0) == pytest.approx(18)  # an eighth took three seconds since the first epoch
    assert "network A, 1 of 2: epoch 2 of 4, loss 1" in progress.sentence(known, "AB", 1004.0, 1000.0)
    write(tmp_path, *FUSION, start=1010.0)
    progress.follow(tmp_path, known)
    assert (known.stage, known.level, known.levels, known.loss) == ("levels", 1, 4, 0.25)
    assert known.names == {0: "first", 1: "second"}
    assert known.done == pytest.approx(1.2 / 4)
    assert "Level 2 of 4" in progress.sentence(known, "AB", 1020.0, 1000.0)
    write(tmp_path, {"kind": "phase", "name": "evaluate"}, start=1030.0)
    assert progress.follow(tmp_path, known).stage == "evaluate"


def test_the_bar_only_grows(tmp_path):
    known, shares = progress.Progress(), [0.0]
    for event in [*TRAINING, *FUSION, {"kind": "phase", "name": "evaluate"}]:
        write(tmp_path, event)
        progress.follow(tmp_path, known)
        shares.append(progress.share(known, trains=True))
    assert shares == sorted(shares) and shares[-1] < 1


def test_a_training_behind_the_levels_is_told_from_theirs(tmp_path):
    write(tmp_path, *FUSION)
    known = progress.follow(tmp_path, progress.Progress())
    before = progress.share(known, trains=False)
    write(tmp_path, {"kind": "phase", "name": "teachers"}, {"kind": "phase", "name": "distillation"}, start=2000.0)
    assert progress.follow(tmp_path, known).stage == "student"
    begun = progress.share(known, trains=False)
    write(tmp_path, {"kind": "epoch", "index": 2, "total": 3, "loss": 0.125, "validation": 0.2}, start=2010.0)
    progress.follow(tmp_path, known)
    assert known.loss == 0.125
    assert 0 < begun == before < progress.share(known, trains=False) < 0.95
    assert "Training towards the networks' mean prediction: epoch 2 of at most 3" in progress.sentence(
        known, "AB", 2020.0, 2000.0
    )


def test_half_a_line_and_damaged_ones_wait_or_are_skipped(tmp_path):
    line = json.dumps({"time": 1.0, **FUSION[1]})
    (tmp_path / "events.jsonl").write_text("no json\n[1]\n" + line[:20])
    known = progress.follow(tmp_path, progress.Progress())
    assert known.level == -1
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(line[20:] + "\n")
    assert progress.follow(tmp_path, known).level == 0
