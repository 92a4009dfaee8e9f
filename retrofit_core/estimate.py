"""Whether a run can work, and what it will take: said before anything is trained or fused.

Networks are built without weights worth the name and partitioned as `fuse` does, so a refusal is fuse's own sentence.
Seconds follow from counted operations, at the pace that one training step and one product of matrices have on this
machine (measured in about a tenth of a second), corrected by what earlier runs of the method took.
"""

import contextlib
import copy
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from . import device as devices
from . import lags
from .analysis import SEEDS, TEST_IMAGES
from .architectures import build, fitted, parse
from .checkpoints import load_model
from .data import Images, load
from .data.augment import augmented
from .data.sampling import balanced
from .data.splits import read_splits
from .eligibility import Plan, check
from .fusion import check_options
from .grouping.kmeans import RESTARTS
from .importance.deeplift import check_rules
from .methods import METHODS, RETROFITTING
from .moments import dual_is_cheaper, product_dtype
from .registry import find
from .runs import RunConfig, check_choices, read_boundaries
from .settings import resolve
from .training.batches import steps_in
from .training.optimizers import OPTIMIZERS
from .training.parents import Planned, TrainConfig
from .training.parents import plan as plan_training
from .walk import boundary_bytes, working_bytes

#: Seconds from the start of a worker until it reads the data (Python and torch): at least, at most.
START = (2.0, 7.0)
#: Bytes that Python and the libraries take.
PROCESS = 750 * 2**20
#: The truth lies within this factor of a prediction, mostly: without and with earlier runs to learn from.
SPREAD, LEARNT = 2.0, 1.5
#: Restarts x iterations of k-means that are usual, and its element operations a second.
LLOYD_STEPS, ELEMENTS = 11 * 15, 1e9
#: Steps of the smallest level whose overhead a level in closed form has, and the first level of all besides.
LEVEL, FIRST = 5, 200
#: Chunks of rows that live at once: inputs, outputs, and what becomes of them.
CHUNKS = 4
#: Images of a training step, where memory is concerned.
BATCH = 128


@dataclass(frozen=True)
class Estimate:
    """What a run will take, or why it cannot work."""

    refusal: str | None
    """One sentence, with the way out; the other fields are then zero"""
    seconds: tuple[float, float]
    """From the start of the worker to the finished record: at least, at most"""
    memory: int
    """Bytes, at the peak"""
    levels: int


def estimate(
    config: RunConfig,
    training: TrainConfig | None = None,
    past: Iterable[Mapping[str, Any]] = (),
    folder: str | Path = ".",
) -> Estimate:
    """What the run of a config will take, the training of missing parents included.

    Args:
        training: of its parents, if they are to be trained.
        past: finished runs, newest first: {"config", "training", "stages"} as in their records ("stages": the seconds
            in status.json).
        folder: where file names in the config are read from.
    """
    folder = Path(folder).absolute()
    try:
        work = _work(config, training, folder)
    except ValueError as error:
        return Estimate(str(error).replace(f"{folder}/", ""), (0.0, 0.0), 0, 0)
    ratios = _ratios(config.method, past, folder)
    low, high = (start + work.reading for start in START)
    for stage, (least, most) in work.seconds.items():
        ratio, spread = ratios.get(stage, (1.0, SPREAD))
        low, high = low + ratio * least / spread, high + ratio * most * spread
    return Estimate(None, (low, high), work.memory, work.levels)


def _ratios(method: str, past: Iterable[Mapping[str, Any]], folder: Path) -> dict[str, tuple[float, float]]:
    """How much longer than predicted each stage took in the last three runs of the method, and how sure that is."""
    found: dict[str, list[float]] = {}
    used = 0
    for run in past:
        # Another version's record, or one whose files are gone, teaches nothing.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            config = RunConfig.from_json(dict(run["config"]))
            if config.method.lower() != method.lower():
                continue
            training = TrainConfig.from_json(run["training"]) if run.get("training") else None
            work = _work(config, training, folder, all_parents=True)
            for stage, (least, most) in work.seconds.items():
                if (taken := run["stages"].get(stage)) and most:
                    found.setdefault(stage, []).append(taken / math.sqrt(least * most))
            used += 1
        if used == 3:
            break
    return {stage: (statistics.median(ratios), LEARNT) for stage, ratios in found.items()}


# --- what there is to do ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    seconds: dict[str, tuple[float, float]]
    """Stage -> (least, most) at this machine's pace"""
    reading: float
    memory: int
    levels: int


@dataclass(frozen=True)
class _Data:
    images: Images
    """Training images; only labels and shape are read"""
    tests: int
    seconds: float
    """that reading it took"""


@cache
def _data(name: str, mean: Any, std: Any, size: int | None) -> _Data:
    start = time.perf_counter()
    train, test = (load(name, split, mean, std, size) for split in ("train", "test"))
    return _Data(train, len(test), time.perf_counter() - start)


@cache
def _work(config: RunConfig, training: TrainConfig | None, folder: Path, all_parents: bool = False) -> _Work:
    """Counted once for each config; raises ValueError where the run cannot work."""
    check_choices(config)
    if find(METHODS, config.method, "method") not in [METHODS[name] for name in RETROFITTING]:
        raise ValueError(f"what {config.method} takes is not estimated: it does not go level by level.")
    data = _data(_source(config.data, folder), config.mean, config.std, config.size)
    if training is None:
        models = [load_model(folder / path, config.arch)[0] for path in config.models]
        rows = read_splits(folder / config.splits, config.models, len(data.images.labels)) if config.splits else None
        missing: list[int] = []
    else:
        planned = plan_training(training, data.images)
        models, rows = [_blank(json.dumps(spec)) for spec in planned.specs], planned.rows
        trained = range(1 if training.twins else training.parts)
        missing = [k for k in trained if all_parents or not (folder / training.files()[k]).exists()]
    target = _target(config.target, data, folder)
    images = config.samples * (1 + config.augment)
    pool = rows[0] if rows and config.fusion_from != "iid" else (torch.cat(rows).unique() if rows else None)
    balanced(data.images.labels, config.samples, rows=pool)
    found = _planned(config, models, target, data.images, images)
    place = devices.pick(config.device)
    paces = [_pace(json.dumps(model.spec), place.type) for model in (*models, found.model)]
    seconds = {"fusion": _fusion(config, found, images, paces, place)}
    if training is not None and missing:
        seconds["training"] = _training(planned, missing, paces, place)
    if config.evaluate:  # alone, and the parents again in the ensemble
        each = [data.tests * pace.forward for pace in paces]
        seconds["measuring"] = (2 * sum(each), 2 * sum(each))
    if config.analyse:
        seconds["analysis"] = _analysis(config, found, images, paces, place)
    memory = _memory(config, found, images, data.images, bool(missing))
    return _Work(seconds, data.seconds, memory, len(found.fused))


def _source(name: str, folder: Path) -> str:
    """A data set as a worker in `folder` would find it."""
    places = (folder / name, folder / "data" / name)
    return next((str(path) for path in places if path.is_dir()), name)


@lru_cache(maxsize=32)
def _blank(spec: str) -> nn.Module:
    """The network of a spec in JSON, its weights zero: enough to be cut into levels, and free to make."""
    with torch.device("meta"):
        model = build(json.loads(spec))
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
    return model


def _target(name: str | None, data: _Data, folder: Path) -> nn.Module | None:
    if name is None:
        return None
    if (folder / name).is_file():
        return load_model(folder / name)[0]
    return _blank(json.dumps(fitted(parse(name), data.images.shape, len(data.images.classes))))


def _planned(config: RunConfig, models: list[nn.Module], target: nn.Module | None, data: Images, images: int) -> Plan:
    """What `fuse` would work on.

    Raises:
        ValueError: its refusal, with a method that works here if there is one.
    """
    inputs = torch.zeros(1, *data.shape).expand(images, -1, -1, -1)

    def attempt(method: str) -> Plan:
        keywords = _keywords(method)
        resolve(config.preset, keywords["grouping"], keywords["fit"], {"ridge": config.ridge})
        place, memory = torch.device("cpu"), config.memory or devices.MEMORY
        found = check(models, inputs, target=target, device=place, memory=memory,
                      boundaries=read_boundaries(config.boundaries), **keywords)  # fmt: skip
        shares = torch.ones(len(models), found.fused[-1].width) if config.head == "shares" else None
        check_options(found, config.toward, config.head, shares, keywords["fit"])
        return found

    try:
        found = attempt(config.method)
    except ValueError as error:
        others = sorted(RETROFITTING, key=lambda name: -_alike(name, config.method))
        works = next((other for other in others if _passes(attempt, other)), None)
        raise ValueError(f"{error} {works} works here." if works else str(error)) from error
    if config.importance == "deeplift":
        for levels in found.parents:
            check_rules(levels)
    return found


def _keywords(method: str) -> dict[str, str]:
    return dict(getattr(find(METHODS, method, "method"), "keywords", {}))


def _alike(first: str, second: str) -> int:
    """How many keywords two methods share."""
    return len(_keywords(first).items() & _keywords(second).items())


def _passes(attempt: Callable[[str], Plan], method: str) -> bool:
    try:
        attempt(method)
    except ValueError:
        return False
    return True


# --- the machine's pace -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pace:
    """Of one network: a training step takes fixed + images x each seconds."""

    fixed: float
    each: float

    @property
    def forward(self) -> float:
        """Seconds of a forward pass for an image, in large batches: a third of a step's operations."""
        return self.each / 3


@lru_cache(maxsize=32)
def _pace(spec: str, device: str) -> _Pace:
    """From steps of one image and of as many as a twentieth of a second holds; large networks, of which that is too few,
    are not faster than their operations at the rate of products."""
    place, shape = torch.device(device), _input_shape(spec)
    model = copy.deepcopy(_blank(spec)).to(place)  # in evaluation mode, for BatchNorm would refuse single images
    stepper = OPTIMIZERS["adamw"](model.parameters(), 1e-3, 0.0)

    def seconds(images: int) -> float:
        x, y = torch.zeros(images, *shape, device=place), torch.zeros(images, dtype=torch.long, device=place)
        devices.synchronise(place)
        start = time.perf_counter()
        stepper.zero_grad()
        cross_entropy(model(x), y).backward()
        stepper.step()
        devices.synchronise(place)
        return time.perf_counter() - start

    seconds(1)
    one = statistics.median(seconds(1) for _ in range(3))
    images = int(min(max(4, 0.05 / one), 64))
    many = statistics.median(seconds(images) for _ in range(3))
    each = max((many - one) / (images - 1), _operations(spec) / _rate(device, torch.float32))
    return _Pace(max(one - each, 0.0), each)


def _input_shape(spec: str) -> list[int]:
    facts = json.loads(spec)
    return facts["sizes"][:1] if "sizes" in facts else [facts.get("channels", 3), *[facts.get("size", 32)] * 2]


def _operations(spec: str) -> float:
    """Of a training step, for each image; a backward pass takes two forward ones."""
    with torch.device("meta"):
        model, x = build(json.loads(spec)), torch.zeros(1, *_input_shape(spec))
    with FlopCounterMode(display=False) as counter:
        model(x)
    return 3.0 * counter.get_total_flops()


@lru_cache(maxsize=4)
def _step(device: str) -> float:
    """Seconds of a gradient step at the smallest of levels: what is not arithmetic."""
    place = torch.device(device)
    level = nn.Linear(8, 8).to(place)
    stepper = torch.optim.AdamW(level.parameters(), lr=0.0)
    x, times = torch.zeros(8, 8, device=place), []
    for _ in range(20):
        start = time.perf_counter()
        stepper.zero_grad()
        level(x).square().mean().backward()
        stepper.step()
        devices.synchronise(place)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@lru_cache(maxsize=4)
def _rate(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a product of matrices."""
    place = torch.device(device)
    size = 512 if place.type == "cpu" else 4096
    a, times = torch.ones(size, size, dtype=dtype, device=place), []
    for _ in range(4):
        devices.synchronise(place)
        start = time.perf_counter()
        torch.mm(a, a)
        devices.synchronise(place)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


# --- seconds ------------------------------------------------------------------------------------------------------------


def _training(
    planned: Planned, missing: Sequence[int], paces: Sequence[_Pace], place: torch.device
) -> tuple[float, float]:
    """Steps of all epochs, augmentation, and a forward pass of the held-out rows for each epoch."""
    total = 0.0
    for index in missing:
        settings, pace, rows = planned.settings[index], paces[index], len(planned.rows[index])
        held_out = settings["holdout"] * rows
        steps = steps_in(int(rows - held_out), settings["batch"])
        # Half of the smallest step for what the loop does beside it: drawing rows, events, the status.
        epoch = steps * (pace.fixed + _step(place.type) / 2) + (rows - held_out) * pace.each + held_out * pace.forward
        total += settings["epochs"] * (epoch + rows * _augmenting(settings, planned.images.shape))
    return total, total


def _augmenting(settings: dict[str, Any], shape: tuple[int, int, int]) -> float:
    """Seconds an image that augmentation takes, measured on a few."""
    chosen = settings["crop"], settings["flip"], settings["policy"]
    return _augmentation_pace(*chosen, shape) if any(chosen) else 0.0


@lru_cache(maxsize=8)
def _augmentation_pace(crop: int, flip: bool, policy: str | None, shape: tuple[int, int, int]) -> float:
    pixels, draw = torch.zeros(256, *shape, dtype=torch.uint8), torch.Generator().manual_seed(0)
    start = time.perf_counter()
    augmented(pixels, crop, flip, policy, draw)
    return (time.perf_counter() - start) / len(pixels)


def _fusion(
    config: RunConfig, plan: Plan, images: int, paces: Sequence[_Pace], place: torch.device
) -> tuple[float, float]:
    """Importance, forward passes, and what each level takes."""
    *parents, fused = paces
    step = _step(place.type)
    keywords = _keywords(config.method)
    settings = resolve(config.preset, keywords["grouping"], keywords["fit"], {"ridge": config.ridge})
    always = FIRST * step + images * sum(pace.forward for pace in paces) + _importance(config, plan, parents)
    always += sum(_grouping(plan, k, keywords["grouping"]) for k in range(len(plan.fused)))
    if keywords["fit"] == "ridge":
        always += sum(_closed_form(plan, k, images, config, place) for k in range(len(plan.fused)))
        return always, always
    train = images * (1 - settings["validation"])
    # A pass over the held-out images counts as a step more, and the loss, position by position, as half a pass.
    # What a step takes whatever its batch is the optimiser's work on large levels, and overhead on small ones.
    steps = (math.ceil(train / settings["batch_size"]) + 1) * max(fused.fixed, step * len(plan.fused))
    epoch = steps + 1.5 * train * fused.each + images * settings["validation"] * fused.forward
    # It may stop as soon as `patience` epochs bring nothing.
    fewest = min(settings["epochs"], settings["patience"] + 1)
    return always + fewest * epoch, always + settings["epochs"] * epoch


def _analysis(
    config: RunConfig, plan: Plan, images: int, paces: Sequence[_Pace], place: torch.device
) -> tuple[float, float]:
    """Both attributions, groupings of every score from several seeds, the moments again, and the accuracy after each
    level (half of the parents' tails and of the fused prefix on average)."""
    others = [dataclasses.replace(config, importance=name) for name in ("conductance", "deeplift")]
    total = sum(_importance(other, plan, paces[:-1]) for other in others)
    passes = images + TEST_IMAGES * len(plan.fused) / 2
    total += passes * sum(pace.forward for pace in paces)
    grouping = _keywords(config.method)["grouping"]
    for index, level in enumerate(plan.fused):
        total += 3 * SEEDS * _grouping(plan, index, grouping)
        total += _closed_form(plan, index, images, config, place) if level.affine is not None else 0.0
    return total, total


def _importance(config: RunConfig, plan: Plan, parents: Sequence[_Pace]) -> float:
    """Passes forward and backward without the weights' gradients: two thirds of a training step."""
    passes = {"conductance": 11, "deeplift": 2 * len(plan.fused)}.get(config.importance.lower(), 0)
    return passes * config.importance_samples * sum(2 / 3 * pace.each for pace in parents)


def _grouping(plan: Plan, index: int, grouping: str) -> float:
    level = plan.fused[index]
    m, d = sum(parent[index].width for parent in plan.parents), level.width
    if level.head:
        return 0.0
    if grouping == "hungarian":
        return 1e-3 + 1e-9 * d**3
    seeding = RESTARTS * d * (2 + math.log(d)) * m
    return d * 1e-4 + (3 * seeding + LLOYD_STEPS * m * m) / ELEMENTS


def _closed_form(plan: Plan, index: int, images: int, config: RunConfig, place: torch.device) -> float:
    """Moments in the precision of products, solves in float64; symmetric products count half."""
    level = plan.fused[index]
    assert level.affine is not None
    m, d, n = sum(parent[index].width for parent in plan.parents), level.width, images * level.positions
    p = level.affine.weight[0].numel() + (level.affine.bias is not None)
    products = _rate(place.type, product_dtype(config.ridge, torch.float32, place))
    solves = _rate(place.type, torch.float64)
    if dual_is_cheaper(n, p, m):
        work = n * n * p + n**3 / 3 + 2 * n * n * m + 2 * n * m * m + n * m * m + 2 * n * d * (m + p)
        return LEVEL * _step(place.type) + (work + n**3 / 3 + 2 * n * n * m) / solves  # the report factors once more
    inputs = len(lags.LAGS) * 2 * n * level.affine.weight.shape[1] ** 2 if lags.applies(level.affine) else n * p * p
    sums = inputs + 2 * n * p * m + n * m * m
    factor = p**3 / 3 + p * p * m
    # The report factors once more. Sums are bound by memory as much as by arithmetic: half of the rate.
    return (
        LEVEL * _step(place.type) + 2 * sums / products + (2 * factor + p * m * m + 2 * p * m * d + p * p * d) / solves
    )


# --- memory -------------------------------------------------------------------------------------------------------------


def _memory(config: RunConfig, plan: Plan, images: int, data: Images, training: bool) -> int:
    """Networks, data, and the most that a level or a training step takes beside them."""
    networks = [*plan.parents, plan.fused]
    weights = [4 * sum(level.parameters for level in levels) for levels in networks]
    pixels = math.prod(data.shape)
    held = min(pixels * len(data), devices.PIXEL_BYTES) + 4 * images * pixels
    most = max(_level_bytes(config, plan, k, images) for k in range(len(plan.fused)))
    if training:  # weights, gradients, two moments, the best; activations and their gradients
        outputs = max(sum(level.width * level.positions for level in levels) for levels in networks)
        most = max(most, 5 * max(weights) + 2 * 4 * 3 * BATCH * outputs)
    return PROCESS + sum(weights) + held + most


def _level_bytes(config: RunConfig, plan: Plan, index: int, images: int) -> int:
    """Sums of a level, what the walk keeps where it fits, a few chunks of rows, and a gradient fit's inputs and targets."""
    networks = [*plan.parents, plan.fused]
    level, before = plan.fused[index], plan.fused[index - 1] if index else None
    sums = working_bytes(networks, index, images)
    kept = boundary_bytes(networks, index, images)
    budget = config.memory or devices.MEMORY
    inputs = level.affine.weight[0].numel() if level.affine is not None else 0
    row = inputs + sum(parent[index].width for parent in plan.parents)
    chunks = CHUNKS * min(devices.CHUNK_BYTES, 4 * images * level.positions * row)
    fitted = [level, before] if plan.fit == "gradient" else []
    sides = sum(4 * images * other.width * other.positions for other in fitted if other)
    return sums + min(kept, max(0, budget - sums)) + chunks + sides
