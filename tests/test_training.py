"""Training: what it reaches, repeats, restores and refuses."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from retrofit_core.data import load
from retrofit_core.data.augment import augmented
from retrofit_core.networks.architectures import build
from retrofit_core.system import device as devices
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training import OPTIMIZERS, RECIPES, loop, recipe, train
from retrofit_core.training.batches import PixelSource, cutmix, epoch_of, steps_in
from retrofit_core.training.optimizers import rates
from tests.marks import each_case, spread

CNN = {"architecture": "cnn", "widths": [4, 6, 6]}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def network(dropout=False):
    model = build(CNN, seed=0)
    if dropout:
        model.features.append(nn.Dropout(0.5))
    return model


def tensors(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def test_training_repeats_by_its_seed_and_leaves_the_global_state_alone(digits):
    """Also what layers draw, apart from batches and augmentation, which have a generator of their own."""

    def trained(seed):
        model, drawn = network(dropout=True), []

        def draw(module, *_):
            if module.training:
                drawn.append(torch.rand(()).item())

        model.classifier.register_forward_hook(draw)
        train(model, digits, torch.arange(200), epochs=1, seed=seed, crop=1, cutmix=True)
        return model.classifier.weight, drawn

    state = torch.get_rng_state()
    (first, drawn), (second, again), (third, others) = map(trained, (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, third)
    assert drawn == again and not {*drawn} & {*others}
    assert torch.equal(torch.get_rng_state(), state)


def test_the_best_epoch_is_restored(digits, monkeypatch):
    model, states = build(CNN, seed=0), []
    qualities = iter([(10.0, -3.0), (50.0, -1.0), (80.0, -2.0), (80.0, -1.5), (70.0, -1.0)])

    def quality(model, *_):
        states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return next(qualities)

    monkeypatch.setattr(loop, "_quality", quality)
    history = train(model, digits, torch.arange(200), epochs=4)
    assert [entry["accuracy"] for entry in history] == [10, 50, 80, 80, 70]
    assert [entry["best"] for entry in history] == [0, 1, 2, 3, 3]
    assert_equal(tensors(model), states[3])  # equal accuracy, lower loss
    assert not torch.equal(model.classifier.weight, states[4]["classifier.weight"])


def test_without_held_out_rows_the_last_epoch_stays(digits):
    history = train(build(CNN, seed=0), digits, torch.arange(64), epochs=2, holdout=0)
    assert [entry["accuracy"] for entry in history] == [None, None, None] and history[-1]["best"] == 2


def test_events_and_cancellation(digits):
    events = []
    epochs_done = lambda: [event for event in events if event["kind"] == "epoch"]  # noqa: E731
    monitor = Monitor(events.append, cancelled=lambda: len(epochs_done()) == 2)
    model = network()
    with pytest.raises(Cancelled):
        train(model, digits, torch.arange(100), epochs=5, batch=32, monitor=monitor)
    assert [(event["epoch"], event["epochs"]) for event in epochs_done()] == [(1, 5), (2, 5)]
    batches = [(event["epoch"], event["index"], event["total"]) for event in events if event["kind"] == "batch"]
    assert batches[:4] == [(1, 1, 3), (1, 2, 3), (1, 3, 3), (2, 1, 3)]
    assert not model.training


def test_held_out_rows_are_a_part_of_every_class(generator):
    labels = torch.tensor([0] * 50 + [1] * 20 + [2])
    kept = loop.held_out_mask(labels, 0.1, generator)
    assert torch.bincount(labels[kept], minlength=3).tolist() == [5, 2, 0]


@pytest.mark.parametrize(("epochs", "warmup", "floor"), [(10, 2, 0.0), (20, 0.5, 1e-5), (3, 1, 1e-4)])
def test_the_cosine_schedule_is_torchs(epochs, warmup, floor):
    per_epoch, peak = 7, 0.1
    rate = rates("cosine", per_epoch, epochs, warmup=warmup, peak=peak, floor=floor)
    rising, steps = round(warmup * per_epoch), per_epoch * epochs
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    parts = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 1 / rising, total_iters=rising - 1),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - rising + 1, eta_min=floor),
    ]
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [rising - 1])
    for step in range(steps):
        assert rate(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()
    assert rate(steps - 1) > floor


def test_warm_restarts_are_torchs():
    rate = rates("restarts", 3, 200, warmup=0, peak=3e-4, floor=1e-6)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10, 2, eta_min=1e-6)
    for epoch in range(200):
        for step in range(3):
            assert rate(3 * epoch + step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_cutmix_weights_are_the_areas(generator):
    """Images of a single value each: counting pixels tells what is whose."""
    seen = set()
    for _ in range(200):
        n, height, width = 5, 9, 7
        values = torch.arange(1.0, n + 1)
        inputs = values.view(n, 1, 1, 1).repeat(1, 2, height, width)
        mixed, labels, others, shares = next(cutmix([(inputs, torch.arange(n))], generator))
        assert labels.tolist() == [0, 1, 2, 3, 4] and sorted(others.tolist()) == [0, 1, 2, 3, 4]
        for image, label, other in zip(mixed, labels, others, strict=True):
            assert ((image == values[label]) | (image == values[other])).all()
            if label != other:
                assert (image == values[label]).double().mean().item() == pytest.approx(shares[0].item(), abs=1e-6)
        seen.add(round(shares[0].item(), 1))
    assert {0.3, 0.5, 0.7, 1.0} <= seen


def test_the_loss_after_cutmix_weighs_both_labels(generator):
    logits, labels = torch.randn(6, 4, generator=generator), torch.tensor([0, 1, 2, 3, 0, 1])
    inputs = torch.rand(6, 1, 8, 8, generator=generator)
    _, labels, others, shares = next(cutmix([(inputs, labels)], generator))
    kept, pasted = shares.tolist()
    assert 0 < kept < 1 and kept + pasted == pytest.approx(1)
    targets = kept * nn.functional.one_hot(labels, 4) + pasted * nn.functional.one_hot(others, 4)
    smooth = 0.9 * targets + 0.1 / 4
    expected = -(smooth * logits.log_softmax(1)).sum(1).mean()
    assert loop._error(logits, 0.1, labels, others, shares).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(("rows", "batch", "steps"), [(10, 5, 2), (11, 5, 2), (12, 5, 3), (1, 5, 1), (3, 1, 3)])
def test_an_epoch_sees_every_row_once_but_no_single_last_one(digits, generator, rows, batch, steps, monkeypatch):
    monkeypatch.setattr("retrofit_core.training.batches.BLOCK_BYTES", 7 * 64)  # one batch a block
    images = digits
    for budget in (2**30, 0):  # held, and decoded ahead by a thread
        source = PixelSource(images, torch.arange(100, 100 + rows), CPU, budget)
        chunks = list(
            epoch_of(
                source,
                torch.arange(rows),
                batch,
                partial(augmented, 0, False, None),
                generator,
                torch.contiguous_format,
            )
        )
        assert len(chunks) == steps == steps_in(rows, batch)
        seen = torch.cat([chunk[0] for chunk in chunks])
        known = images.inputs(torch.arange(100, 100 + rows))
        positions = [(known == image).flatten(1).all(1).nonzero()[0].item() for image in seen]
        assert len(set(positions)) == len(positions) == min(rows, steps * batch)
        assert torch.equal(torch.cat([chunk[1] for chunk in chunks]), images.labels[100 + torch.tensor(positions)])


def test_streamed_images_train_as_held_ones(digits):
    models = [network(), network()]
    for model, budget in zip(models, (2**30, 0), strict=True):
        train(model, digits, torch.arange(300), epochs=2, crop=1, flip=True, cutmix=True, budget=budget)
    assert_equal(tensors(models[0]), tensors(models[1]))


def test_an_image_that_cannot_be_decoded_ends_streaming_with_its_error(digits):
    def read(rows):
        if 77 in rows:
            raise ValueError("row 77 is no image.")
        return digits.pixels(rows)

    with pytest.raises(ValueError, match="row 77 is no image"):
        train(network(), replace(digits, read=read), torch.arange(200), epochs=2, budget=0)


def test_a_part_of_autoaugment_reaches_the_batches(digits, generator):
    source = PixelSource(digits, torch.arange(500), CPU, 2**30)

    def batch(augment):
        draw = torch.Generator().manual_seed(1)
        return next(iter(epoch_of(source, torch.arange(500), 500, augment, draw, torch.contiguous_format)))[0]

    plain, changed = batch(partial(augmented, 0, False, None)), batch(partial(augmented, 0, False, "cifar10"))
    same = (plain == changed).flatten(1).all(1).double().mean()
    assert 0 < same < 0.8  # AutoContrast and the like leave many digits as they are


@pytest.mark.slow
def test_bfloat16_trains_and_leaves_float32_weights(digits):
    mixed, plain = network(), network()
    settings = {"epochs": 6, "learning_rate": 0.01}
    losses = [
        train(model, digits, torch.arange(600), **settings, precision=precision)[-1]["loss"]
        for model, precision in ((mixed, "bfloat16"), (plain, "float32"))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.05) and losses[1] < 1.9
    assert {tensor.dtype for tensor in mixed.state_dict().values()} == {torch.float32}
    assert not torch.equal(mixed.classifier.weight, plain.classifier.weight)


def test_auto_is_bfloat16_where_the_processor_has_it(monkeypatch):
    for flags, expected in (({"amx_bf16"}, torch.bfloat16), ({"avx2"}, torch.float32)):
        monkeypatch.setattr(devices, "_cpu_flags", lambda flags=flags: frozenset(flags))
        assert devices.autocast_dtype("auto", CPU) == expected
        assert devices.autocast_dtype("float32", CPU) == torch.float32
    with pytest.raises(ValueError, match="unknown precision 'float16'. Known: auto, float32, bfloat16"):
        devices.autocast_dtype("float16", CPU)


# --- going on after a stop


@pytest.mark.slow
@each_case("optimizer, stop", spread(OPTIMIZERS, [1, 4], 1))
def test_a_cancelled_training_goes_on_bit_for_bit(digits, tmp_path, optimizer, stop):
    settings = {"epochs": 6, "optimizer": optimizer, "learning_rate": 3e-3, "crop": 1, "cutmix": True}
    rows, state, straight = torch.arange(300), tmp_path / "state.pt", network(dropout=True)
    history = train(straight, digits, rows, **settings)
    events = []
    monitor = Monitor(events.append, cancelled=lambda: sum(event["kind"] == "epoch" for event in events) == stop)
    with pytest.raises(Cancelled):
        train(network(dropout=True), digits, rows, **settings, state=state, monitor=monitor)
    model = network(dropout=True)
    assert train(model, digits, rows, **settings, state=state) == history
    assert_equal(tensors(model), tensors(straight))
    again = network(dropout=True)  # a finished training has nothing left to do
    assert train(again, digits, rows, **settings, state=state) == history
    assert_equal(tensors(again), tensors(straight))


@pytest.fixture
def stopped(digits, tmp_path):
    """The state file of a training that was cancelled after its first epoch."""
    state, events = tmp_path / "state.pt", []
    monitor = Monitor(events.append, cancelled=lambda: any(event["kind"] == "epoch" for event in events))
    with pytest.raises(Cancelled):
        train(network(), digits, torch.arange(100), epochs=3, state=state, monitor=monitor)
    return state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 1e-3}, "with learning_rate 0.003, this training has 0.001"),
        ({"precision": "bfloat16"}, "with precision float32, this training has bfloat16"),
        ({"rows": torch.arange(99)}, "with training_rows "),
        ({"model": build(CNN, seed=1)}, "with initial_weights "),
    ],
)
def test_other_settings_do_not_go_on(digits, stopped, change, message):
    with pytest.raises(ValueError, match=message):
        train(
            **{"model": network(), "images": digits, "rows": torch.arange(100), "epochs": 3, "state": stopped, **change}
        )


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "foreign": lambda path: torch.save({"weight": torch.zeros(3)}, path),
}


@each_case("damage", DAMAGES)
def test_a_damaged_state_is_refused_in_a_sentence(digits, stopped, damage):
    DAMAGES[damage](stopped)
    with pytest.raises(ValueError, match="not the state of a training") as caught:
        train(network(), digits, torch.arange(100), epochs=3, state=stopped)
    assert str(stopped) in str(caught.value) and "to begin again" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- recipes


def test_every_recipe_is_made_of_arguments_of_train(digits):
    for name in RECIPES:
        settings = recipe(name, "cifar10", architecture="vgg", parts=2)
        model = network()
        # `digits` takes the augmentation of CIFAR-10 too: it is grey, which AutoAugment allows.
        train(model, digits, torch.arange(40), **{**settings, "epochs": 1, "batch": 16})


@each_case(
    ("architecture", "data", "parts", "epochs"),
    [
        ("vgg", "cifar10", 2, 200),
        ("vgg", "cifar10", 5, 150),
        ("vgg", "cifar100", 8, 200),
        ("vit", "cifar100", 1, 350),
        ("vit", "tiny-imagenet", 6, 300),
        ("vgg", "bloodmnist", 2, 100),
        ("mlp", "mnist", 2, 25),
    ],
)
def test_the_papers_training(architecture, data, parts, epochs):
    settings = recipe("paper", data, architecture=architecture, parts=parts)
    assert settings["epochs"] == epochs
    table = {"optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 5e-5, "batch": 128, "cutmix": True}
    if data != "mnist":  # which the paper's table of training has not
        table |= {"warmup": 5, "floor": 1e-5, "label_smoothing": 0.1}
    assert {name: settings[name] for name in table} == table and (data != "mnist" or not settings["label_smoothing"])
    assert settings.get("policy") == ("cifar10" if data.startswith("cifar") else None)


@pytest.mark.parametrize("name", ["cifar", "imagenet", "finetune"])
def test_images_of_unknown_data_stay_as_they_are_unless_asked(name):
    """What a shift or a mirror image does to them is unknown: a network of 59.2 % fell to 33.3 by it."""
    plain = {"crop": 0, "flip": False, "policy": None, "cutmix": False}
    assert not recipe(name, "mine", 64).keys() & plain.keys()
    assert recipe(name, "cifar10")["crop"] == 4 and recipe(name, "imagenet", 224)["crop"] == 28
    for data in ("mine", "cifar10"):
        assert recipe(name, data, augment="none").items() >= plain.items()
        asked = recipe(name, data, augment="crop=3, flip,policy=CIFAR10,cutmix")
        assert asked.items() >= {"crop": 3, "flip": True, "policy": "cifar10", "cutmix": True}.items()
    assert "crop" not in recipe("small", "cifar10") and recipe("small", "cifar10", augment="flip")["flip"]


@each_case(
    ("name", "given", "message"),
    [
        ("cifr", {}, "unknown recipe 'cifr'.* Did you mean 'cifar'"),
        ("paper", {"architecture": "resnet"}, "the paper trained no resnet on mine"),
        ("finetune", {"augment": "blur"}, "unknown augmentation 'blur'"),
        ("finetune", {"augment": "crop=-1"}, "unknown augmentation 'crop=-1'"),
        ("finetune", {"augment": "policy=cifar"}, "unknown AutoAugment policy 'cifar'"),
    ],
)
def test_unknown_recipes_and_augmentations_are_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        recipe(name, "mine", **given)


def test_a_finetuning_that_only_harms_gives_the_start_back(digits):
    """With its BatchNorm statistics, which every step moves, bit for bit; `best` says so."""
    model = network()
    model.features.insert(1, nn.BatchNorm2d(4))
    train(model, digits, torch.arange(600), epochs=4)
    before = tensors(model)
    settings = recipe("finetune", "digits", 8) | {"epochs": 2, "learning_rate": 3.0}
    history = train(model, digits, torch.arange(600), **settings)
    assert [entry["best"] for entry in history] == [0, 0, 0]
    assert max(entry["accuracy"] for entry in history[1:]) < history[0]["accuracy"]
    assert_equal(tensors(model), before)


@each_case(
    ("arguments", "message"),
    [
        ({"rows": torch.tensor([], dtype=torch.int64)}, "no rows of data set 'digits'"),
        ({"epochs": 0}, "epochs is 0. Use a whole number from 1"),
        ({"optimizer": "adamm"}, "Did you mean 'adam'"),
        ({"rows": torch.arange(64), "learning_rate": 1e30, "optimizer": "sgd"}, "training diverged in epoch"),
    ],
)
def test_impossible_training(digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        train(build(CNN, seed=0), digits, **{"epochs": 3, **arguments})


def test_a_network_that_does_not_suit_the_images_is_refused_before_training(digits):
    events = []
    for spec, message in (
        ({"architecture": "mlp", "sizes": [64, 5]}, "the network has 5 classes, data set 'digits' has 10"),
        ({"architecture": "mlp", "sizes": [32, 10]}, r"does not take the images of data set 'digits' \(1x8x8\)"),
    ):
        with pytest.raises(ValueError, match=message):
            train(build(spec, seed=0), digits, range(100), monitor=Monitor(events.append))
    with pytest.raises(ValueError, match=r"rows -1\.\.2000000 were requested from data set 'digits'"):
        train(network(), digits, [-1, 2_000_000], monitor=Monitor(events.append))
    assert not events
