"""Compute a landscape from its settings: check and count first, then evaluate."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import pi
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Images
from ...data.sampling import balanced
from ...networks.copies import copies
from ...networks.outputs import as_classifier
from ...networks.wrappers import unwrapped
from ...system import device as devices
from ...system.monitor import Monitor
from ...system.registry import known_name
from ...training.evaluation import check_suits
from ..settings import LandscapeSettings
from .mixtures import Mixtures
from .plane import Plane, check_alike, plane
from .survey import Marker, Path, Rise, Survey

#: Numbers of evaluations, each with the changed fields of a survey.
Work = Iterator[tuple[int, dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Plan:
    """A landscape that can be computed: checked, with decoded images, before any evaluation."""

    landscape: "Landscape"
    through: tuple[str, str, str]
    mixtures: Mixtures
    plane: Plane
    xs: Tensor
    """(n,) float64"""
    ys: Tensor
    """(n,) float64"""
    facts: dict[str, Any]

    @property
    def evaluations(self) -> dict[str, int]:
        """Number of points in weight space to evaluate: networks, grid, paths, flatness."""
        settings, networks = self.landscape, len(self.mixtures.names)
        return {
            "networks": networks,
            "grid": settings.resolution**2,
            "paths": 3 * settings.path_points,
            "flatness": networks * (settings.directions + 1) if settings.directions else 0,
        }


@dataclass(frozen=True)
class Landscape(LandscapeSettings):
    """Loss and accuracy on the plane through three networks of one architecture."""

    def plan(
        self,
        networks: Mapping[str, nn.Module],
        through: Sequence[str],
        images: Images,
        *,
        device: str | torch.device | None = "auto",
    ) -> Plan:
        """Check everything, decode and normalise the images, find the plane; evaluates nothing.

        Args:
            networks: name -> network, all of one architecture; those not in `through` are projected onto the plane.
            through: names of the three that span it.
        Raises:
            ValueError: not three networks, unknown ones, of different shapes, or collinear; too few images, or images that
                do not suit the networks.
        """
        spanning = [known_name(networks, name, "network of the landscape") for name in through]
        if len(spanning) != 3 or len(set(spanning)) != 3:
            raise ValueError(f"a plane needs three different networks. Found {', '.join(through) or 'none'}.")
        ordered = {name: unwrapped(networks[name]) for name in (*spanning, *networks)}
        check_alike(ordered)
        ordered = copies(ordered)
        check_suits(ordered[spanning[0]], images)
        ordered = {name: as_classifier(network, images.inputs([0])) for name, network in ordered.items()}
        if self.images > (held := len(images)):
            raise ValueError(
                f"each point is to be measured on {self.images} images, and there are {held} of {images.name!r} "
                f"({images.split}). Ask for no more than that (images={held}, --images {held})."
            )
        drawn = balanced(images.labels, self.images, generator=torch.Generator().manual_seed(self.seed))
        picked = devices.pick(device)
        mixtures = Mixtures(ordered, images.inputs(drawn), images.labels[drawn], device=picked)
        through_plane = plane(list(mixtures.weights), mixtures.names)
        xs, ys = (self._axis(through_plane.coordinates[:, axis]) for axis in (0, 1))
        facts = {
            "data": images.name,
            "split": images.split,
            "images": self.images,
            "resolution": self.resolution,
            "seed": self.seed,
            "norms": "estimated" if mixtures.has_statistics else "none",
            "device": str(picked),
            "radius": self.radius * through_plane.coordinates[1, 0].item(),
            "clip": self.clip,
        }
        names = (spanning[0], spanning[1], spanning[2])
        return Plan(self, names, mixtures, through_plane, xs, ys, facts)

    def run(self, plan: Plan, monitor: Monitor | None = None) -> Iterator[Survey]:
        """Compute a landscape, yielding what is known so far; the last survey is complete.

        Networks come first, then the grid row by row, then paths and flatness. Events are "phase" and "step".

        Raises:
            Cancelled: on the monitor's request; earlier surveys remain valid.
        """
        monitor, start = monitor or Monitor(), time.perf_counter()
        unknown = torch.full((len(plan.ys), len(plan.xs)), float("nan"), dtype=torch.float64)
        grids, total = (unknown, unknown, unknown > 0), sum(plan.evaluations.values())
        survey = Survey(plan.through, plan.xs, plan.ys, *grids, (), plan.facts, total=total)
        for work in (_networks, _cells, _paths, _rises):
            monitor.emit("phase", name=f"landscape: {work.__name__.removeprefix('_')}")
            for count, measured in work(plan, survey, monitor):
                seconds = time.perf_counter() - start
                survey = replace(survey, **measured, done=survey.done + count, seconds=seconds)
                monitor.emit("step", index=survey.done, total=survey.total, name="landscape")
                yield survey

    def _axis(self, coordinates: Tensor) -> Tensor:
        """(n,) coordinates from below the lowest network to above the highest, beyond them by the margin."""
        low, high = coordinates.min(), coordinates.max()
        beyond = self.margin * (high - low)
        return torch.linspace((low - beyond).item(), (high + beyond).item(), self.resolution, dtype=torch.float64)


def path_between(mixtures: Mixtures, first: str, last: str, points: int, monitor: Monitor | None = None) -> Path:
    """Loss and accuracy along the straight line between two networks, with the landscape's handling of BatchNorm.

    Raises:
        ValueError: an unknown network.
    """
    ends = [mixtures.names.index(known_name(dict.fromkeys(mixtures.names), name, "network")) for name in (first, last)]
    t = torch.linspace(0, 1, points, dtype=torch.float64)
    shares = torch.zeros(points, len(mixtures.names), dtype=torch.float64)
    shares[:, ends[0]] = 1 - t
    shares[:, ends[1]] += t
    losses, accuracies = mixtures.measure(shares, monitor).T.tolist()
    return Path(mixtures.names[ends[0]], mixtures.names[ends[1]], tuple(t.tolist()), tuple(losses), tuple(accuracies))


def rise_around(
    mixtures: Mixtures,
    plane_through: Plane,
    index: int,
    radius: float,
    directions: int,
    monitor: Monitor | None = None,
) -> Rise:
    """The rise of the loss on a circle around a network, in directions of a plane."""
    angles = 2 * pi * torch.arange(directions, dtype=torch.float64) / directions
    circle = radius * torch.stack([angles.cos(), angles.sin()], 1)
    points = torch.cat([torch.zeros(1, 2, dtype=torch.float64), circle])
    measured = mixtures.measure(plane_through.shares(points, index), monitor)
    centre, *around = measured[:, 0].tolist()
    rises = [loss - centre for loss in around]
    return Rise(mixtures.names[index], radius, sum(rises) / len(rises), max(rises))


def _networks(plan: Plan, survey: Survey, monitor: Monitor) -> Work:
    markers = survey.markers
    for index, name in enumerate(plan.mixtures.names):
        monitor.check()
        x, y = plan.plane.coordinates[index].tolist()
        loss, accuracy = plan.mixtures.measure_network(index).tolist()
        markers += (Marker(name, x, y, plan.plane.distances[index].item(), loss, accuracy),)
        yield 1, {"markers": markers}


def _cells(plan: Plan, survey: Survey, monitor: Monitor) -> Work:
    grids = {name: getattr(survey, name) for name in ("loss", "accuracy", "finished")}
    for row, y in enumerate(plan.ys):
        points = torch.stack([plan.xs, y.expand_as(plan.xs)], 1)
        measured = plan.mixtures.measure(plan.plane.shares(points), monitor)
        grids = {name: grid.clone() for name, grid in grids.items()}
        grids["loss"][row], grids["accuracy"][row] = measured.T
        grids["finished"][row] = True
        yield len(plan.xs), grids


def _paths(plan: Plan, survey: Survey, monitor: Monitor) -> Work:
    paths = survey.paths
    for first, last in combinations(plan.through, 2):
        paths += (path_between(plan.mixtures, first, last, plan.landscape.path_points, monitor),)
        yield plan.landscape.path_points, {"paths": paths}


def _rises(plan: Plan, survey: Survey, monitor: Monitor) -> Work:
    directions, rises = plan.landscape.directions, survey.rises
    for index in range(len(plan.mixtures.names)) if directions else ():
        rises += (rise_around(plan.mixtures, plan.plane, index, plan.facts["radius"], directions, monitor),)
        yield directions + 1, {"rises": rises}
