"""One contract for every method: a finite network of the wanted shape and a whole report, or a refusal that says why."""

import copy
import json
import math
from functools import partial
from itertools import product
from typing import NamedTuple

import pytest
import torch
import torchvision

from retrofit_core import METHODS, FusionResult
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import RETROFITTING
from retrofit_core.networks.architectures import ARCHITECTURES, build
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.flat import CONTROLS, fuse
from tests.marks import each_case, is_chosen, spread
from tests.networks import (
    CNN_SHAPE,
    VGG_SHAPE,
    initialised,
    labels,
    normal,
    residual,
    seeded,
)
from tests.properties import assert_close, untouched

SAMPLES = 12
#: Of these, where a method holds some out.
FITTED = 9

# --- methods ---------------------------------------------------------------------------------------------------------

_NAMED = {(METHODS[name].fixed["grouping"], METHODS[name].fixed["fit"]) for name in (*RETROFITTING, *CONTROLS)}
#: Groupings of `fuse` that are no method by name are under the same contract.
UNNAMED = {
    f"{grouping}, {fit}": partial(fuse, grouping=grouping, fit=fit)
    for grouping in GROUPINGS
    for fit in FITS
    if (grouping, fit) not in _NAMED
}
WEIGHTS = {f"{name}, weights": partial(METHODS[name], mode="weights") for name in ("OTFusion", "Transformer-OTFusion")}
EVERY = {**METHODS, **UNNAMED, **WEIGHTS}
RIDGE = ("HF-Linear", "KF-Linear", *CONTROLS, *(name for name in UNNAMED if name.endswith("ridge")))
GRADIENT = ("HF-Gradient", "KF-Gradient", *(name for name in UNNAMED if name.endswith("gradient")))
HUNGARIAN, SAME_INDEX = ("HF-Linear", "HF-Gradient"), ("same_index, ridge", "same_index, gradient")
#: Methods that align by activations, and by weights.
TRANSPORT, TRANSFORMER = ((name, f"{name}, weights") for name in ("OTFusion", "Transformer-OTFusion"))
#: Those that find neurons by `groups_of`.
ALIGNING = (*TRANSPORT, *TRANSFORMER, "Git-Re-Basin", "ZipIt", "PLeaS")
AVERAGING = ("Average", "RegMean")
#: These bring no neurons together, so they report no levels.
WITHOUT_LEVELS = (*AVERAGING, "Ensemble", "Ensemble-Logits", "KD", "LP")


def takes(name, setting):
    return setting in METHODS["KF-Linear" if name in UNNAMED else name.removesuffix(", weights")].keywords()


def options_for(name):
    """What a run would give a method besides models and data; as little work as possible."""
    chosen = {"device": "cpu", "seed": 0}
    if name in GRADIENT or name in ("KD", "LP"):
        chosen["epochs"] = 1
    return chosen


# --- networks --------------------------------------------------------------------------------------------------------


class Family(NamedTuple):
    """Networks of one architecture, float32."""

    make: object
    """seed -> network"""
    other: object
    """seed -> network of other widths; None where no method tells the difference"""
    shape: tuple = VGG_SHAPE
    classes: int = 4


def of_spec(spec, **changes):
    return Family(lambda seed: build(spec, seed=seed), lambda seed: build({**spec, **changes}, seed=seed))


def torchvision_vit(seed, mlp_width=12):
    network = seeded(seed, torchvision.models.VisionTransformer, 8, 4, 2, 2, 8, mlp_width, num_classes=4)
    return initialised(network, seed).float()


MLP = {"architecture": "mlp", "sizes": [192, 9, 8, 4]}
CNN = {"architecture": "cnn", "widths": [3, 4, 5], "classes": 4, "channels": 3}
VGG = {"architecture": "vgg", "plan": [3, "M", 4, 5, "M"], "classes": 4, "size": 8}
RESNET = {"architecture": "resnet", "layers": [1, 1], "width": 3, "classes": 4, "size": 8}
VIT = {"architecture": "vit", "hidden": 6, "depth": 2, "heads": 2, "mlp_width": 5, "classes": 4, "size": 8}
NETWORKS = {
    "mlp": of_spec(MLP, sizes=[192, 7, 10, 4]),
    "cnn": of_spec(CNN, widths=[4, 3, 6]),
    "vgg": of_spec(VGG, plan=[4, "M", 3, 6, "M"]),
    "vgg with BatchNorm": of_spec({**VGG, "batch_norm": True}, plan=[4, "M", 3, 6, "M"]),
    "resnet": of_spec(RESNET, width=4),
    "vit": of_spec(VIT, mlp_width=7),
    "residual": Family(
        lambda seed: residual(seed=seed).float(), lambda seed: residual(6, seed=seed).float(), CNN_SHAPE, 3
    ),
    "torchvision vit": Family(torchvision_vit, lambda seed: torchvision_vit(seed, 15)),
}
BLOCKS = ("resnet", "vit", "residual", "torchvision vit")
VITS = ("vit", "torchvision vit")
ALL = tuple(NETWORKS)

# --- situations ------------------------------------------------------------------------------------------------------

SCORED = {
    score: {"importance": score, "importance_data": "fusion", **options}
    for score, options in {name: {"steps": 2} if name == "conductance" else {} for name in IMPORTANCE}.items()
    if score != "uniform"  # as in all other situations
}
ENDS_ONLY = ("deeplift",)
SITUATIONS = {
    "two parents": lambda family: ([family.make(0), family.make(1)], {}),
    **{
        score: lambda family, options=options: ([family.make(0), family.make(1)], options)
        for score, options in SCORED.items()
    },
    "one parent": lambda family: ([family.make(0)], {}),
    "three parents": lambda family: ([family.make(0), family.make(1), family.make(2)], {}),
    "other widths": lambda family: ([family.make(0), family.other(1)], {}),
    "a target": lambda family: ([family.make(0), family.make(1)], {"target": family.other(5)}),
}
#: What is refused, in the order of precedence: methods, networks, situations, the reason. Everything else must work.
REFUSED = [
    (HUNGARIAN, ALL, ("one parent", "three parents"), "hungarian pairs exactly two parents of the fused width; found"),
    (
        HUNGARIAN,
        tuple(name for name in ALL if name not in VITS),
        ("other widths", "a target"),
        r"hungarian pairs exactly two parents of the fused width; found widths \(",
    ),
    (
        SAME_INDEX,
        tuple(name for name in ALL if name not in VITS),
        ("other widths", "a target"),
        "same_index needs equal widths; found widths",
    ),
    (
        [name for name in HUNGARIAN if name in RIDGE],
        VITS,
        ("other widths", "a target"),
        r"hungarian pairs exactly two parents of the fused width; found widths \(",
    ),
    (
        [name for name in SAME_INDEX if name in RIDGE],
        VITS,
        ("other widths", "a target"),
        "same_index needs equal widths; found widths",
    ),
    (
        GRADIENT,
        VITS,
        ("deeplift",),
        r"DeepLIFT has no rule for layer_norm\(\)",
    ),
    (
        (*ALIGNING, *RIDGE),
        BLOCKS,
        ENDS_ONLY,
        "importance '.*' is defined only where all that is alive is one layer's output",
    ),
    (TRANSFORMER, ALL, ("a target",), "aligns the parents to one of them, and none has the widths of the target"),
    (
        ("Git-Re-Basin",),
        ALL,
        ("one parent", "three parents"),
        "Git Re-Basin pairs exactly two parents; found [13]. Use OTFusion",
    ),
    (("Git-Re-Basin",), ALL, ("other widths", "a target"), "Git Re-Basin pairs parents of equal widths; found widths"),
    (("PLeaS",), ALL, ("one parent", "three parents"), "PLeaS pairs exactly two parents; found [13]. Use OTFusion"),
    (("PLeaS",), ALL, ("other widths",), "PLeaS pairs parents of equal widths; found widths"),
    (AVERAGING, ALL, ("other widths", "a target"), "weights cannot be averaged: '.*' has the shapes"),
]


def reason(name, network, situation):
    return next(
        (
            why
            for methods, networks, situations, why in REFUSED
            if name in methods and network in networks and situation in situations
        ),
        None,
    )


def applies(name, network, situation):
    """Whether a situation can be asked for at all."""
    if situation in SCORED and not takes(name, "importance"):
        return False
    if situation == "a target" and not takes(name, "target"):
        return False
    return NETWORKS[network].other is not None or situation not in ("other widths", "a target")


def case(network, situation):
    """Parents, (inputs, labels) and options."""
    family = NETWORKS[network]
    models, options = SITUATIONS[situation](family)
    data = normal(SAMPLES, *family.shape).float(), labels(SAMPLES, family.classes)
    return models, data, options


def carried_out(name, network, situation, monitor=None):
    """A method's result, the parents having been left as they were; None where it refuses as it should."""
    models, data, options = case(network, situation)
    options = {**options_for(name), **options}
    why = reason(name, network, situation)
    with untouched(*models, *([options["target"]] if "target" in options else [])):
        if why:
            with pytest.raises(ValueError, match=why):
                EVERY[name](models, data, **options, monitor=monitor)
            return None
        result = EVERY[name](models, data, **options, monitor=monitor)
    assert_whole(name, result, models, data, options)
    return result


def assert_whole(name, result, models, data, options):
    """A finite network in evaluation mode, and a report from which nothing is missing."""
    x, classes = data[0], int(data[1].max()) + 1
    assert not any(module.training for module in result.model.modules())
    assert all(torch.isfinite(t).all() for t in result.model.state_dict().values() if t.is_floating_point())
    assert {parameter.dtype for parameter in result.model.parameters()} == {torch.float32}
    with torch.no_grad():
        outputs = result.model(x)
    assert outputs.shape == (len(x), classes) and torch.isfinite(outputs).all()
    if not name.startswith("Ensemble"):
        # Auto may return a parent of any shape.
        like = [options["target"]] if "target" in options else models if name == "Auto" else models[:1]
        assert shapes(result.model) in [shapes(model) for model in like]
    assert result.seconds >= 0 and result.config["device"] == "cpu"
    assert json.loads(json.dumps(result.config)) is not None and json.dumps(result.importance)
    if name != "Auto":  # which may return a parent
        assert (result.levels == []) == (name in WITHOUT_LEVELS)
    assert len(result.to_frame()) == len(result.levels)
    assert len(result.importance) == (len(models) if result.levels else 0)
    for level in result.levels:
        assert_whole_level(
            level, len(models), rows=1 if name in TRANSFORMER else FITTED if name == "Auto" else SAMPLES
        )  # the entries of a class token
    if result.levels:  # class c stays class c
        assert result.levels[-1].labels.tolist() == list(range(classes)) * len(models)


def assert_whole_level(level, n_parents, rows):
    m = sum(level.widths)
    assert level.labels.shape == level.scores.shape == (m,) and level.gram.shape == (m, m)
    assert len(level.widths) == n_parents and 0 <= level.labels.min() <= level.labels.max() < level.width
    assert_close(torch.stack([part.sum() for part in level.scores.split(level.widths)]), torch.ones(n_parents), 1e-6)
    assert level.rows >= rows and level.energy >= 0 and level.grouping_error >= 0
    assert math.isnan(level.approximation_error) or level.approximation_error >= 0
    assert all(seconds >= 0 for seconds in level.seconds.values())
    assert json.dumps(level.to_dict()) and level.coordinates.shape == (m, 3)


def shapes(model):
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


# --- the contract ----------------------------------------------------------------------------------------------------


CASES = [case for case in product(EVERY, NETWORKS, SITUATIONS) if applies(*case)]


def test_the_contract_is_about_everything():
    assert ARCHITECTURES.keys() <= NETWORKS.keys() and METHODS.keys() <= EVERY.keys()
    assert IMPORTANCE.keys() == {"uniform", *SCORED}
    for *_, why in REFUSED:  # no refusal is written down in vain
        assert any(reason(*case) == why for case in CASES), why


#: The network of `make quick`.
FIRST = "vgg with BatchNorm"


@pytest.mark.parametrize("name", EVERY)
def test_every_method_works_or_says_why_not(name, tmp_path):
    assert_works_or_says_why_not(name, FIRST, tmp_path)


@pytest.mark.slow
@each_case("name, network", spread(METHODS, [network for network in NETWORKS if network != FIRST], 1))
def test_methods_work_on_other_networks_or_say_why_not(name, network, tmp_path):
    assert_works_or_says_why_not(name, network, tmp_path)


def assert_works_or_says_why_not(name, network, folder):
    """Two parents: progress goes forward, the work can be stopped in its middle, the result comes back from its folder."""
    events = []
    result = carried_out(name, network, "two parents", Monitor(events.append))
    assert_goes_forward(events)
    if result is None:
        return
    if result.levels and name != "Auto":  # whose levels are those of one fusion of several
        assert [event["name"] for event in events if event["kind"] == "level"] == [
            level.name for level in result.levels
        ]
    assert_can_be_stopped(name, network, len(events) // 2)
    models, data, _ = case(network, "two parents")
    assert_comes_back(result, data[0], folder, alone=hasattr(models[0], "spec"))


def assert_goes_forward(events):
    """In each loop events count up by one to what they announced, and only then another loop begins; epochs may be fewer."""
    last = {}
    for event in events:
        if "index" not in event:
            continue
        key, first = (event["kind"], event.get("name") if event["kind"] != "level" else None), event["kind"] == "epoch"
        before = last.get(key)
        over = before is None or before["index"] == before["total"] - 1 + first or event["kind"] == "epoch"
        assert event["index"] == (first if over and event["index"] == first else before["index"] + 1), (before, event)
        assert event["index"] < event["total"] + first
        last[key] = event


def assert_can_be_stopped(name, network, after):
    """Half of the events through; nothing is changed, and no flag stays as the work had it."""
    models, data, options = case(network, "two parents")
    seen = []
    monitor = Monitor(seen.append, lambda: len(seen) >= after)
    with untouched(*models), pytest.raises(Cancelled):
        EVERY[name](models, data, **options_for(name), monitor=monitor)


def assert_comes_back(result, x, folder, *, alone):
    """From the files alone where the library knows the parents' architecture, else with a module to fill."""
    result.save(folder)
    again = FusionResult.load(folder, None if alone else copy.deepcopy(result.model))
    with torch.no_grad():
        assert torch.equal(again.model(x), result.model(x))
    assert again.config == json.loads(json.dumps(result.config)) and again.importance == result.importance
    for ours, theirs in zip(again.levels, result.levels, strict=True):
        assert json.dumps(ours.to_dict()) == json.dumps(theirs.to_dict())
        assert torch.equal(ours.labels, theirs.labels) and torch.equal(ours.scores, theirs.scores)


@pytest.mark.long
@each_case("name, score", spread([name for name in EVERY if takes(name, "importance")], SCORED, 1))
def test_methods_that_weigh_neurons_take_every_score(name, score):
    """A new score of the table as well; with all methods and on other networks below."""
    carried_out(name, FIRST, score)


@pytest.mark.long
@pytest.mark.parametrize("name", EVERY)
def test_all_networks_numbers_widths_and_scores_work_or_are_refused(name, subtests):
    for method, network, situation in CASES[::5]:
        words = f"{network}, {situation}"
        if method == name and is_chosen(words):
            with subtests.test(words):
                carried_out(name, network, situation)


HOSTILE = {
    "no parents": (lambda models, x: ([], x), "there is no parent to fuse|pairs exactly two parents; found 0"),
    "no samples": (lambda models, x: (models, x[:0]), "the fusion set is empty"),
    "NaN in the data": (lambda models, x: (models, x * float("nan")), "fusion sample 0 holds NaN or infinity"),
    "integers": (
        lambda models, x: (models, x.long()),
        "does not run on these data, which are torch.int64, not floating-point",
    ),
    "words": (lambda models, x: (models, "digits"), "fusion data must be a tensor"),
    "NaN in a parent": (lambda models, x: ([models[0], broken(models[1])], x), "parent 1 has NaN or infinity in 'fc1"),
    "two precisions": (lambda models, x: ([models[0], models[1].double()], x), "mix torch.float32 and torch.float64"),
    "half precision": (lambda models, x: ([model.half() for model in models], x), "Convert it with model.float"),
    "other classes": (
        lambda models, x: ([models[0], build({**MLP, "sizes": [192, 9, 8, 3]}, seed=1)], x),
        "classes|shapes|the parents' outputs",
    ),
    "other images": (lambda models, x: (models, x[:, :, :7]), "does not run|shape|does not take"),
}


def broken(model):
    model.fc1.weight.data[0, 0] = float("nan")
    return model


@each_case("name, what", spread(EVERY, HOSTILE, 2))
def test_every_method_refuses_the_same_things_in_a_sentence(name, what):
    change, message = HOSTILE[what]
    models, data, _ = case("mlp", "two parents")
    given, x = change(models, data[0])
    with untouched(*given), pytest.raises(ValueError, match=message):
        EVERY[name](given, x, **options_for(name))
