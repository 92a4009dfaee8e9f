"""The configs that the form's picks make. No Streamlit, and no torch until then."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retrofit_app.runs import methods, own_name
from retrofit_core.system.refusals import Refusal

from .parameters import Picks

#: What a scale multiplies, and the suffixes of the library's presets.
CNN_WIDTHS, MLP_WIDTH = (16, 32, 32), 256
SUFFIXES = {"0.5": "-half", "1": "", "2": "-double"}
#: Options with their own control.
PICKED = {"grouping", "preset"}


def architecture(arch: str, scale: str, inputs: int, classes: int) -> str:
    """The value of `retrofit train --arch` for an architecture with scaled widths.

    Args:
        inputs: values in an image.
    Raises:
        ValueError: this architecture comes in one width only.
    """
    if scale == "1":
        return arch
    if arch == "cnn":
        return json.dumps({"architecture": "cnn", "widths": [round(float(scale) * width) for width in CNN_WIDTHS]})
    if arch == "mlp":
        return json.dumps({"architecture": "mlp", "sizes": [inputs, round(float(scale) * MLP_WIDTH), classes]})
    if arch.startswith("vgg"):
        return arch + SUFFIXES[scale]
    raise Refusal(f"{arch} comes in normal width only. Take cnn, mlp or a vgg for other widths.", ("scale", "1"))


def training(picks: Picks, inputs: int, classes: int) -> Any:
    """The parents' `TrainConfig`, or None if none are trained.

    Raises:
        ValueError: these picks cannot be trained.
    """
    if picks.networks != "train":
        return None
    from retrofit_core.training.config import TrainConfig

    twins = picks.split == "twins"
    if twins and picks.parents < 2:
        raise Refusal("twins are at least two networks: set the number of networks to 2 or more.", ("parts", 2))
    ratio: dict[str, Any] = {"ratio": picks.ratio} if picks.split == "dirichlet" else {}
    archs = [architecture(picks.arch, scale, inputs, classes) for scale in picks.scales()]
    if twins and len(set(archs)) > 1:
        raise Refusal("twins have the same widths: set all networks to one width.", ("widths", "1"))
    return TrainConfig(
        data=picks.data,
        arch=tuple(archs[:1] if len(set(archs)) == 1 else archs),
        parts=picks.parents,
        twins=twins,
        split="full" if twins else picks.split,
        recipe=picks.recipe,
        epochs=picks.epochs or None,
        seed=picks.split_seed,
        size=picks.size or None,
        **ratio,
    )


def fusion(picks: Picks, parents: Any, inputs: int, classes: int) -> Any:
    """The fusion's `RunConfig`, including everything that pictures need.

    Args:
        parents: what `training` returned.
    Raises:
        ValueError: these picks contradict each other or name nothing to fuse.
    """
    from retrofit_core.runs import RunConfig
    from retrofit_core.system.texts import read_options

    takes = methods.takes(picks.method)
    chosen = {
        "method": picks.method,
        "importance": picks.importance_used or RunConfig.importance,
        "samples": picks.samples,
        "seed": picks.fusion_seed,
        "evaluate": True,
        "analyse": takes.analysis,
        "options": _stored_options(picks, read_options(list(picks.options))) or None,
        "fusion_from": "iid" if picks.source == "all" else None,
    }
    if picks.networks == "shipped":
        from retrofit_app import bundle

        config = bundle.config(picks.method)
        return replace(config, **chosen)
    if picks.networks == "own":
        return _fusion_of_files(picks, chosen)
    reshaped = takes.target and picks.fused != "first"
    target = architecture(picks.arch, picks.fused, inputs, classes) if reshaped else None
    folder = f"parents-{parents.key()}"
    models = tuple(f"{folder}/parent-{index}.safetensors" for index in range(picks.parents))
    return RunConfig(
        models=models, data=picks.data, splits=f"{folder}/splits.json", target=target, size=picks.size or None, **chosen
    )


def options(picks: Picks) -> Mapping[str, Any]:
    """Settings of the picked method, grouping and score without their own control: name -> `Setting`."""
    chosen = {"grouping": picks.grouping_used, "importance": picks.importance_used}
    settings = methods.table()[picks.method].settings({name: value for name, value in chosen.items() if value})
    return {name: entry for name, entry in settings.items() if name not in PICKED}


def checked_options(picks: Picks, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as in the address: those that differ from their defaults, without those that other controls set.

    Raises:
        ValueError: a name is not an option of the picks, or a value is not allowed.
    """
    if elsewhere := given.keys() & PICKED:
        raise ValueError(f"{min(elsewhere)} has its own control.")
    score = {"importance": picks.importance_used} if picks.importance_used else {}
    methods.table()[picks.method].algorithm(**_picked(picks), **score, **given)
    return {name: value for name, value in _stored_options(picks, given).items() if name not in PICKED}


def _stored_options(picks: Picks, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options given to the method, as in a config."""
    return methods.table()[picks.method].stored_options({**_picked(picks), **given}, picks.importance_used)


def _picked(picks: Picks) -> dict[str, Any]:
    """The options that other controls set."""
    preset = picks.settings if methods.table()[picks.method].parts else "default"
    return {
        **({"grouping": picks.grouping_used} if picks.grouping_used else {}),
        **({"preset": preset} if preset != "default" else {}),
    }


def _fusion_of_files(picks: Picks, chosen: dict[str, Any]) -> Any:
    from retrofit_core.runs import RunConfig

    if not picks.files:
        raise ValueError("name at least one checkpoint: two or more to fuse, one to compress.")
    # Without a splits file, it is unknown which network saw which images.
    rows = {"splits": picks.rows} if picks.rows else {"fusion_from": "iid"}
    score = picks.importance_used
    if not picks.rows and score is not None and methods.importances()[score].needs_data:
        rows["importance_data"] = "fusion"
    return RunConfig(
        models=tuple(map(own_name, picks.files)),
        data=picks.data,
        arch=picks.code or None,
        target=picks.target or None if methods.takes(picks.method).target else None,
        size=picks.size or None,
        **{**chosen, **rows},
    )
