"""Loss landscapes against closed forms, plain evaluation, plain loops and known symmetries."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from retrofit_core.data import Images
from retrofit_core.data.images import in_memory
from retrofit_core.inspection.landscape import Landscape, Mixtures, Survey, networks_of
from retrofit_core.inspection.landscape import mixtures as mixtures_module
from retrofit_core.inspection.landscape.landscape import path_between, rise_around
from retrofit_core.inspection.landscape.plane import plane
from retrofit_core.networks.architectures import build
from retrofit_core.system.monitor import Monitor
from tests.marks import each_case
from tests.networks import batchnorm_cnn, cnn, initialised, labels, mlp, normal, permuted
from tests.properties import renew_norms

VGG = {"architecture": "vgg", "plan": [6, "M", 8, "M"], "size": 8, "classes": 3}
RESNET = {"architecture": "resnet", "layers": [1, 1], "width": 4, "size": 8, "classes": 3}
VIT = {
    "architecture": "vit",
    "patch": 4,
    "hidden": 12,
    "depth": 2,
    "heads": 2,
    "mlp_width": 16,
    "size": 8,
    "classes": 3,
}


def images_of(shape, classes=3, count=40, seed=0) -> Images:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
    read, held_labels, held_shape = in_memory(pixels, labels(count, classes, seed))
    names = tuple(f"class {index}" for index in range(classes))
    return Images(read, held_labels, held_shape, names, "noise", (0.5,), (0.3,), split="test")


def survey_of(networks, through, data, **settings) -> Survey:
    landscape = Landscape(**{"resolution": 4, "images": 30, "directions": 4, "path_points": 5, **settings})
    *_, last = landscape.run(landscape.plan(networks, through, data, device="cpu"))
    return last


def flat(network: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def three_mlps():
    return {name: mlp((6, 5, 3), seed=seed) for seed, name in enumerate("abc")}


# --- the plane --------------------------------------------------------------------------------------------------------


def test_the_basis_is_orthonormal_and_the_networks_lie_where_they_are():
    W = torch.stack([flat(mlp(seed=seed)) for seed in range(5)])
    through = plane(list(W), [f"network {index}" for index in range(5)])
    basis = through.axes @ W
    assert torch.allclose(basis @ basis.T, torch.eye(2, dtype=torch.float64), atol=1e-12)
    points = W[0] + through.coordinates @ basis
    assert torch.allclose(points[:3], W[:3], atol=1e-12)
    assert torch.allclose((W - points).norm(dim=1), through.distances, atol=1e-7)
    assert torch.allclose((W[3:] - points[3:]) @ basis.T, torch.zeros(2, 2, dtype=torch.float64), atol=1e-10)
    assert through.coordinates[1, 1].abs() < 1e-12 and through.coordinates[2, 1] > 0
    assert through.distances[:3].tolist() == [0, 0, 0] and (through.distances[3:] > 1).all()


def test_networks_on_one_line_and_twins_are_refused():
    networks = {"a": mlp(seed=0), "b": mlp(seed=1)}
    networks["average"] = networks_of(list(networks.values()))["average"]
    with pytest.raises(ValueError, match="a, b and average are on one line"):
        plane([flat(network) for network in networks.values()], list(networks))
    with pytest.raises(ValueError, match="a and c have the same weights"):
        plane([flat(networks["a"]), flat(networks["b"]), flat(networks["a"])], list("abc"))


# --- loss and accuracy ------------------------------------------------------------------------------------------------


def test_the_loss_of_linear_networks_is_that_of_their_closed_form():
    """Logits of a linear network are linear in its weights: the loss at a point is that of the mixed logits."""
    x, y = normal(50, 6), labels(50, 4)
    networks = {str(seed): mlp((6, 4), seed=seed) for seed in range(3)}
    through = plane([flat(network) for network in networks.values()], list(networks))
    points = torch.tensor([[0.3, -0.7], [2.0, 1.5], [-4.0, 3.0]], dtype=torch.float64)
    shares = through.shares(points).numpy()
    logits = np.stack([(x @ network[0].weight.T + network[0].bias).detach().numpy() for network in networks.values()])
    mixed = np.einsum("pk,knc->pnc", shares, logits)
    exponentials = np.exp(mixed - mixed.max(-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(-1, keepdims=True)
    expected = -np.log(probabilities[:, np.arange(50), y.numpy()]).mean(1)
    measured = Mixtures(networks, x, y).measure(through.shares(points))
    assert np.allclose(measured[:, 0], expected, atol=1e-12)
    assert np.allclose(measured[:, 1], 100 * (mixed.argmax(-1) == y.numpy()).mean(1))


def test_a_quadratic_loss_has_the_barrier_and_the_rise_of_its_formula(monkeypatch):
    """With squared error for cross entropy a linear network's loss is quadratic: |M (a - t)|^2 on a path, exactly."""
    x, y = normal(30, 5), labels(30, 3)

    def squared(logits, wanted):
        return (logits - nn.functional.one_hot(wanted, 3)).square().sum(1).mean()

    monkeypatch.setattr(mixtures_module, "cross_entropy", squared)
    networks = {name: mlp((5, 3), seed=seed) for seed, name in enumerate("abc")}
    mixtures = Mixtures(networks, x, y)
    path = path_between(mixtures, "a", "b", 5)
    a, b = (network(x).detach() for network in list(networks.values())[:2])
    energy = (a - b).square().sum(1).mean().item()
    # The loss is convex along the path: it lies below the line between the ends by t (1 - t) times the energy.
    assert np.allclose(path.rises, [-t * (1 - t) * energy for t in path.t], atol=1e-12)
    assert path.barrier == pytest.approx(0, abs=1e-12)
    through = plane(list(mixtures.weights), mixtures.names)
    directions = [network(x).detach() for network in networks.values()]
    lines = [sum(share * line for share, line in zip(axis, directions, strict=True)) for axis in through.axes.tolist()]
    energies = [line.square().sum(1).mean().item() for line in lines]
    # Around a circle, linear terms cancel and squares of sines and cosines are a half on average.
    rise = rise_around(mixtures, through, 2, 0.7, 6)
    assert rise.mean == pytest.approx(0.7**2 * sum(energies) / 2, rel=1e-10)
    assert rise.most >= rise.mean


@pytest.mark.parametrize("make", [cnn, batchnorm_cnn], ids=["plain", "BatchNorm"])
def test_at_the_networks_the_plane_has_their_own_loss(make):
    x, y = normal(30, 2, 7, 7), labels(30, 3)
    networks = {str(seed): make(seed=seed) for seed in range(3)}
    mixtures = Mixtures(networks, x, y)
    through = plane(list(mixtures.weights), mixtures.names)
    on_plane = mixtures.measure(through.shares(through.coordinates))
    for index, network in enumerate(networks.values()):
        with torch.no_grad():
            own = network(x)
        assert mixtures.measure_network(index)[0].item() == pytest.approx(cross_entropy(own, y).item(), rel=1e-12)
        if make is batchnorm_cnn:
            renew_norms(network, x)
            own = network(x).detach()
        expected = [cross_entropy(own, y).item(), 100 * (own.argmax(1) == y).double().mean().item()]
        assert on_plane[index].tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@each_case("spec", [VGG, RESNET, VIT])
@each_case("dtype", [torch.float32, torch.float64])
def test_mixtures_give_what_a_plain_loop_gives(spec, dtype, monkeypatch):
    networks = {str(seed): initialised(build(spec, seed=seed), seed).to(dtype) for seed in range(3)}
    x, y = normal(12, 3, 8, 8).to(dtype), labels(12, 3)
    shares = torch.softmax(normal(5, 3), 1)
    together = Mixtures(networks, x, y)
    monkeypatch.setitem(mixtures_module.PASS_BYTES, "cpu", 1)  # every image by itself
    alone = Mixtures(networks, x, y)
    assert together.images_at_once > 1 == alone.images_at_once
    expected = []
    for share in shares:
        mixed = copy.deepcopy(networks["0"]).train()  # BatchNorm by the batch, as is estimated; there is no dropout
        weights = sum(a * flat(network) for a, network in zip(share.to(dtype), networks.values(), strict=True))
        nn.utils.vector_to_parameters(weights, mixed.parameters())
        with torch.no_grad():
            logits = mixed(x)
        expected.append([cross_entropy(logits.double(), y).item(), 100 * (logits.argmax(1) == y).double().mean()])
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    for mixtures in (together, alone):
        assert torch.allclose(mixtures.measure(shares), torch.tensor(expected, dtype=torch.float64), rtol=tolerance)


# --- symmetries -------------------------------------------------------------------------------------------------------


def test_a_reordered_copy_has_a_barrier_that_its_alignment_removes():
    images = images_of((2, 7, 7), count=60)
    parent = cnn(widths=(8, 9), seed=1)
    with torch.no_grad():
        parent.float()[-1].weight *= 4  # sure of itself, so that a barrier shows
        labelled = replace(images, labels=parent(images.inputs()).argmax(1))
    twin = permuted(parent).float()
    networks = networks_of([parent, twin], align="git-re-basin", data=(images.inputs(), images.labels), device="cpu")
    mixtures = Mixtures(networks, labelled.inputs(), labelled.labels)
    raw, aligned = (path_between(mixtures, "parent 0", name, 11).barrier for name in ("parent 1", "aligned parent 1"))
    assert raw > 0.05 and aligned == pytest.approx(0, abs=1e-5)


def test_all_networks_of_a_fusion_have_their_names():
    parents = [mlp(seed=seed) for seed in range(2)]
    networks = networks_of(parents, mlp(seed=3), mlp(seed=4), align="OTFusion", data=normal(20, 6), device="cpu")
    assert list(networks) == ["parent 0", "parent 1", "aligned parent 1", "average", "fused", "fine-tuned"]
    with pytest.raises(ValueError, match="unknown alignment 'magic'"):
        networks_of(parents, align="magic")


# --- a whole survey ---------------------------------------------------------------------------------------------------


def test_what_is_known_comes_bit_by_bit():
    networks, images = three_mlps(), images_of((1, 2, 3))
    networks = {name: nn.Sequential(nn.Flatten(), network).float() for name, network in networks.items()}
    landscape = Landscape(resolution=5, images=30, directions=3, path_points=4)
    plan = landscape.plan(networks, "abc", images, device="cpu")
    events = []
    seen = list(landscape.run(plan, Monitor(events.append)))
    assert plan.evaluations == {"networks": 3, "grid": 25, "paths": 12, "flatness": 12}
    assert [survey.done for survey in seen] == sorted({survey.done for survey in seen})
    assert seen[-1].done == seen[-1].total == sum(plan.evaluations.values())
    assert len(seen[0].markers) == 1 and not seen[0].finished.any()
    part = next(survey for survey in seen if survey.finished.sum() == 10)
    assert part.finished[:2].all() and (part.loss.isnan() == ~part.finished).all()
    assert torch.equal(part.loss[:2], seen[-1].loss[:2])
    assert [event["index"] for event in events if event["kind"] == "step"] == [survey.done for survey in seen]
    assert [event["name"] for event in events if event["kind"] == "phase"] == [
        f"landscape: {name}" for name in ("networks", "cells", "paths", "rises")
    ]
    assert [(path.first, path.last) for path in seen[-1].paths] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(path.barrier >= 0 for path in seen[-1].paths)


def test_a_cell_has_the_loss_at_its_column_along_the_first_axis_and_its_row_along_the_second():
    networks, images = {name: cnn(seed=seed).float() for seed, name in enumerate("abc")}, images_of((2, 7, 7))
    landscape = Landscape(resolution=3, images=30, directions=0, path_points=3)
    plan = landscape.plan(networks, "abc", images, device="cpu")
    *_, survey = landscape.run(plan)
    assert survey.xs.tolist() != survey.ys.tolist()
    for row, column in survey.finished.nonzero().tolist():
        point = torch.stack([survey.xs[column], survey.ys[row]])[None]
        loss, accuracy = plan.mixtures.measure(plan.plane.shares(point))[0].tolist()
        assert survey.loss[row, column].item() == pytest.approx(loss, rel=1e-5)
        assert survey.accuracy[row, column].item() == pytest.approx(accuracy)


def test_the_same_seed_gives_the_same_survey_and_another_one_other_images():
    networks, images = {name: cnn(seed=seed).float() for seed, name in enumerate("abc")}, images_of((2, 7, 7))
    first, second, other = (survey_of(networks, "abc", images, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.loss, second.loss) and first.rises == second.rises
    assert not torch.equal(first.loss, other.loss)


def test_files_hold_everything(tmp_path):
    networks = {name: batchnorm_cnn(seed=seed).float() for seed, name in enumerate("abcd")}
    survey = survey_of(networks, "abc", images_of((2, 7, 7)))
    survey.loss[0, 0] = float("inf")
    survey.save(tmp_path)
    again = Survey.load(tmp_path)
    assert torch.equal(again.loss, survey.loss) and torch.equal(again.accuracy, survey.accuracy)
    assert (again.markers, again.paths, again.rises, again.facts, again.through) == (
        survey.markers,
        survey.paths,
        survey.rises,
        survey.facts,
        survey.through,
    )
    content = json.loads((tmp_path / "landscape.json").read_text())
    assert "re-estimated" in content["caption"] and "scal" in content["warning"]
    (tmp_path / "landscape.json").write_text("{}")
    with pytest.raises(ValueError, match="this is not a landscape"):
        Survey.load(tmp_path)
    (tmp_path / "landscape.json").write_text("[")
    with pytest.raises(ValueError, match="missing or broken"):
        Survey.load(tmp_path)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(networks, through, data, message, **settings):
    with pytest.raises(ValueError, match=message):
        Landscape(**{"images": 30, **settings}).plan(networks, through, data, device="cpu")


def test_what_cannot_be_drawn_is_refused_before_any_work():
    networks, images = {name: cnn(seed=seed).float() for seed, name in enumerate("abc")}, images_of((2, 7, 7))
    refused(networks, "ab", images, "three different networks. Found a, b")
    refused(networks, "aab", images, "three different networks")
    refused(networks, "abd", images, "unknown network of the landscape 'd'. Known: a, b, c")
    refused(
        {**networks, "b": cnn(widths=(6, 5)).float()}, "abc", images, r"'0.weight' is of shape \(4, 2, 3, 3\) in a and"
    )
    refused({**networks, "d": cnn(bias=False).float()}, "abc", images, "'0.bias' is .* in a and absent in d")
    refused({**networks, "b": cnn(seed=1)}, "abc", images, "a and b have weights of different types")
    refused(networks, "abc", images, "on 50 images, and there are 40 of 'noise'", images=50)
    refused(networks, "abc", images_of((3, 7, 7)), "does not take the images")
    refused({**networks, "b": networks["a"]}, "abc", images, "a and b have the same weights")
    with pytest.raises(ValueError, match="resolution"):
        Landscape(resolution=1)
    with pytest.raises(ValueError, match="at least one"):
        networks_of([])
    with pytest.raises(ValueError, match="in parent 0 and .* in parent 1"):
        networks_of([cnn(), cnn(widths=(6, 5))])
