"""The method with one of its parts switched off, against what is left then."""

import numpy as np
import pytest
import torch
from torch import Tensor

from retrofit_core.baselines import average
from retrofit_core.fusion.grouping import Grouping, KMeans
from retrofit_core.networks.levels import partition
from tests.flat import fuse
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal, permuted
from tests.properties import assert_close, assert_same_function

PARENTS = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE)}
SCORED = {"importance": "conductance", "importance_data": "fusion"}


@pytest.mark.parametrize("make, shape", PARENTS.values(), ids=PARENTS)
@pytest.mark.parametrize("toward", ["zero", "parents"])
def test_without_refit_neuron_i_with_neuron_i_is_the_average_of_weights(make, shape, toward):
    parents = [make(seed=k) for k in range(2)]
    fused = fuse(parents, normal(40, *shape), grouping="same_index", refit=False, toward=toward, device="cpu").model
    assert_same_function(fused, average(parents), normal(20, *shape, seed=1), 1e-6)  # in another order of neurons


def test_without_refit_twins_still_give_the_parent_and_strangers_do_not_give_the_fit():
    parent, other, x = mlp(seed=0), mlp(seed=1), normal(60, 6)
    options = {"grouping": "hungarian", "refit": False, "ridge": 0.0, "device": "cpu"}
    assert_same_function(fuse([parent, permuted(parent)], x, **options).model, parent, normal(20, 6, seed=1), 1e-5)
    unfitted = fuse([parent, other], x, **options).levels
    fitted = fuse([parent, other], x, **{**options, "refit": True}).levels
    assert unfitted[0].approximation_error < 1e-9  # the inputs are the parents' own
    assert unfitted[1].approximation_error > 2 * fitted[1].approximation_error


@pytest.mark.parametrize("project", [True, False])
def test_without_projection_neurons_are_grouped_by_their_raw_outputs(project):
    """At each level the Gram matrix is z'z; with projection less than that, as the fused inputs do not tell all."""
    parents, x = [mlp(seed=k) for k in range(2)], normal(60, 6)
    seen: list[Tensor] = []

    def grouping(gram: Tensor, scores: Tensor, widths: tuple[int, ...], width: int, **keywords) -> Grouping:
        seen.append(gram)
        return KMeans(restarts=2)(gram, scores, widths, width, **keywords)

    fuse(parents, x, grouping=grouping, project=project, ridge=0.1, device="cpu")
    tensors = [x, x]
    with torch.no_grad():
        for index, gram in enumerate(seen):
            tensors = [partition(model, x[:2])[index].module(h) for model, h in zip(parents, tensors, strict=True)]
            z = torch.cat(tensors, 1).double().numpy()
            if project:
                assert np.trace(z.T @ z) > 1.0001 * gram.trace().item()
            else:
                assert_close(gram, torch.from_numpy(z.T @ z), 1e-5)


def test_scores_at_the_head_alone_group_as_uniform_ones_and_weigh_the_logits():
    parents, x = [mlp(seed=k) for k in range(2)], normal(60, 6)
    data, options = (x, labels(60, 4)), {"grouping": "kmeans", "device": "cpu"}
    uniform = fuse(parents, data, **options)
    at_head = fuse(parents, data, scored="head", **SCORED, **options)
    nowhere = fuse(parents, data, scored="head", head="mean", **SCORED, **options)
    everywhere = fuse(parents, data, **SCORED, **options)
    *hidden, head = at_head.model.state_dict()
    for name in hidden[:-1]:
        assert_close(at_head.model.state_dict()[name], uniform.model.state_dict()[name], 1e-6)
    assert (at_head.model.state_dict()[head] - uniform.model.state_dict()[head]).abs().max() > 1e-3
    for name, tensor in uniform.model.state_dict().items():
        assert_close(nowhere.model.state_dict()[name], tensor, 1e-6)
    assert torch.equal(at_head.levels[-1].scores, everywhere.levels[-1].scores)
