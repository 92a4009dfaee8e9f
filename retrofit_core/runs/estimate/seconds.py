"""Seconds of a run: its operations, at the rate of a matrix product that is measured once on this machine.

The form says with them whether one waits for seconds, minutes or hours. Other load on the machine is not counted.
"""

import json
import math
import time
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import nn

from ...fusion.importance import IMPORTANCE
from ...fusion.joint_spaces import Levels
from ...inspection.analysis import SEEDS, TEST_IMAGES
from ...networks.architectures import build, input_shape_of
from ...system import device as devices
from ...training.parents import PlannedParent
from ..finetunings import FinetunePlan
from ..leaderboard import operations as multiply_adds
from .planning import MethodPlan, blank

#: From the start of a worker until it begins (Python and torch).
START = 5.0
#: Share of a matrix product's rate that whole networks reach.
EFFICIENCY = 0.5
#: Overhead of a layer in a training step, whatever its size, in seconds.
CALL = 5e-4
#: Grouping m neurons takes about as long as so many operations of a matrix product for each pair of them.
GROUPING = 3e4


@lru_cache(maxsize=2)
def operations_a_second(device: str) -> float:
    """Floating-point operations per second of a matrix product; the fastest of a few, because other load only adds time."""
    chosen = torch.device(device)
    size = 512 if chosen.type == "cpu" else 4096
    a, times = torch.ones(size, size, device=chosen), []
    for _ in range(8):
        devices.synchronise(chosen)
        start, processor = time.perf_counter(), time.process_time()
        torch.mm(a, a)
        devices.synchronise(chosen)
        times.append(time.perf_counter() - start)
        if chosen.type == "cpu":  # without waiting for a core
            times.append((time.process_time() - processor) / torch.get_num_threads())
    return 2 * size**3 / min(times)


@lru_cache(maxsize=32)
def operations(spec: str) -> float:
    """Operations of a forward pass per image, of a network given by its spec (JSON)."""
    with torch.device("meta"):
        model = build(json.loads(spec)).eval()
    x = torch.zeros(1, *input_shape_of(model), device=devices.of(model))  # foreign networks are on the CPU
    return 2.0 * multiply_adds(model, x)


def forward_seconds(spec: str, device: str = "cpu") -> float:
    """Seconds per image of a network given by its spec (JSON), in batches."""
    return operations(spec) / operations_a_second(device) / EFFICIENCY


def run_seconds(
    planned: MethodPlan,
    parents: Sequence[nn.Module],
    device: str,
    *,
    tests: int,
    analyse: bool,
) -> float:
    """Seconds from the start of the worker to the finished record, without the training of parents.

    Args:
        tests: test images on which everything is measured.
    """
    result = [json.dumps(network.spec) for network in planned.networks]
    of_parents = [forward_seconds(json.dumps(network.spec), device) for network in parents]
    each, fused = sum(of_parents), sum(forward_seconds(spec, device) for spec in result)
    total = START + tests * (each + fused + of_parents[0])  # and the average
    task, cost, count = planned.plan.task, planned.plan.cost, len(planned.plan.cost.groups)
    asked = [fusion.plan.task.importance for fusion in planned.fusions] or [task.importance]
    # Fusions that are tried one after the other have their scores in common.
    scored = 2 * len(task.parents_data()[0][0])  # a pass with its backward pass counts twice
    total += (cost.passes + scored * max(score.passes(count) for score in asked)) * each
    for fusion in planned.fusions:
        fit, images = fusion.algorithm.fit, len(fusion.plan.task.inputs)
        trains = bool(fit.epochs_range[1])
        work = _closed_form(fusion.plan.levels, images, 1, grouped_only=trains)
        total += images * forward_seconds(result[0], device) + work / operations_a_second(device)
        if trains:  # each epoch of all levels passes through the whole network once
            total += _training_seconds(result[0], images, fit.batch_size, sum(fit.epochs_range) / 2, device)
    if not planned.fusions:
        total += GROUPING * sum(sum(widths) ** 2 for widths in cost.groups) / operations_a_second(device)
    if cost.trained:
        epochs = sum(cost.epochs) / 2  # it may stop early
        total += _training_seconds(result[0], cost.samples, cost.batch, epochs, device, cost.trained == "head")
    if analyse and planned.fusions:
        scores = scored * sum(score().passes(count) for score in IMPORTANCE.values())
        total += (scores + len(task.inputs) + TEST_IMAGES * count / 2) * each + TEST_IMAGES * count / 2 * fused
        work = _closed_form(planned.fusions[0].plan.levels, len(task.inputs), len(IMPORTANCE) * SEEDS)
        total += work / operations_a_second(device)
    return total


def finetuning_seconds(plan: FinetunePlan, device: str = "auto") -> float:
    """Predicted seconds from the start of the worker, on this machine.

    Raises:
        ValueError: a network without a spec, whose operations are not known beforehand.
    """
    networks = (plan.run.fused, *plan.controls().values())
    specs = [json.dumps(spec) for network in networks if isinstance(spec := getattr(network, "spec", None), dict)]
    if len(specs) < len(networks):
        raise ValueError("the pace of a network that is not from the library is known once it is trained.")
    chosen, count = devices.pick(device).type, len(specs)
    planned = PlannedParent(plan.images, [plan.rows] * count, list(map(json.loads, specs)), [plan.settings] * count)
    # All networks before, on the held-out images, and the trained ones on about as many test images.
    measured = (len(plan.run.parents) * 2 + 2 * count) * len(plan.held_out) * forward_seconds(specs[0], chosen)
    return START + measured + sum(parent_seconds(planned, index, chosen) for index in range(count))


def parent_seconds(planned: PlannedParent, index: int, device: str) -> float:
    """All epochs of a parent's training."""
    settings, spec = planned.settings[index], json.dumps(planned.specs[index])
    return _training_seconds(spec, len(planned.rows[index]), settings["batch"], settings["epochs"], device)


def _training_seconds(spec: str, images: int, batch: int, epochs: float, device: str, head: bool = False) -> float:
    """Epochs of a network, or of its last layer alone; a backward pass costs two forward passes."""
    calls = 1 if head else sum(next(part.parameters(recurse=False), None) is not None for part in blank(spec).modules())
    each = 0.0 if head else 3 * forward_seconds(spec, device)
    return epochs * (images * each + math.ceil(images / batch) * calls * CALL)


def _closed_form(levels: Levels, images: int, groupings: int, grouped_only: bool = False) -> float:
    """Operations of all levels: groupings, sums over rows, and systems of equations.

    Sums are bound by memory and systems are solved in float64, so both run at half the rate of a product in float32.
    """
    total = 0.0
    for index, level in enumerate(levels.fused):
        m = levels.columns(index)
        if not level.fixed and levels.stream(index)[0] == index:
            total += groupings * GROUPING * sum(levels.widths(index)) ** 2
        if grouped_only or level.affine is None:
            continue
        n, p = images * level.positions, level.form.inputs_per_neuron + level.form.bias
        r = min(n, p)  # the smaller of the two forms
        sums = (level.form.parts or 1) * n * p * r + 2 * n * p * m + n * m * m
        solves = 2 * (r**3 / 3 + r * r * m) + p * m * m
        total += 2 * (sums + solves)
    return total
