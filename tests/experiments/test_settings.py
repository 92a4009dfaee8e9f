"""The paper's table of training beside the recipes; notebook 02 has the other settings."""

from retrofit_core.training.recipes import PAPER_EPOCHS, recipe
from tests.marks import each_case

#: The table of training, the same for VGGs, ViTs and ResNets.
TRAINING = {"warmup": 5, "floor": 1e-5, "learning_rate": 1e-3, "label_smoothing": 0.1, "batch": 128}


@each_case(("architecture", "data"), [key for key in PAPER_EPOCHS if key != ("mlp", "mnist")])
def test_the_recipe_has_the_table_of_training(architecture, data):
    """Of all that the paper trained; it has no perceptrons."""
    ours = recipe("paper", data, architecture=architecture)
    assert {name: ours[name] for name in TRAINING} == TRAINING
