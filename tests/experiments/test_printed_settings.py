"""The settings that the paper prints, as typed in, and what they stand beside."""

import pytest

from retrofit_core.experiments.printed_settings import (
    GRADIENT,
    LINEAR,
    TRAINING,
    TRANSFORMERS,
    TUNING,
    printed_settings,
)
from tests.experiments.test_paper_settings import GRADIENT as GRADIENT_NAMES
from tests.experiments.test_paper_settings import SIZE, numbers
from tests.experiments.test_paper_settings import TRAINING as TRAINING_NAMES
from tests.experiments.tex_tables import settings_after


@pytest.mark.parametrize(
    ("start", "names", "typed"),
    [
        ("\\label{tab:appendix-hp}", GRADIENT_NAMES, [GRADIENT]),
        ("All base models are trained with the following hyperparameters:", TRAINING_NAMES, [TRAINING]),
        ("\\label{appendix:finetuning-params}", TRAINING_NAMES, list(TUNING.values())),
        ("with the following model architecture settings:", SIZE, list(TRANSFORMERS.values())),
    ],
)
def test_what_is_typed_in_is_printed(tex, start, names, typed):
    rows = settings_after(tex, start)
    assert [numbers(rows, names, column) for column in range(len(typed))] == typed


def test_the_strengths_are_those_of_the_text(tex):
    assert r"we found $\lambda = 10^{-3}$ for HF-Linear and $\lambda = 10$ for KF-Linear" in tex
    assert LINEAR == {"hungarian": 1e-3, "kmeans": 10}


def test_all_but_three_settings_are_the_papers():
    frame = printed_settings()
    different = frame[~frame["same"]]
    assert {(line.table, line.setting, line.paper, line.ours) for line in different.itertuples()} == {
        ("fine-tuning, tiny-imagenet", "learning_rate", 1e-5, 3e-4),
        ("network vit", "mlp_width", 1536, 384),
        ("network vit-tiny-imagenet", "mlp_width", 384, 1536),
    }
    assert len(frame) == 6 + 2 + 5 + 2 * 4 + 2 * 5


def test_our_defaults_stand_beside_the_papers_settings():
    frame = printed_settings().set_index(["table", "setting"])
    assert frame.loc[("gradient fits", "perturbation"), ["ours", "default"]].to_list() == [1.0, 0.0]
    assert frame.loc[("linear fits", "lambda, kmeans"), "default"] == "auto"
