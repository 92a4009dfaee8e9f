"""Facts about methods: from the library's table, and from a finished record without torch.

The library's tables need torch, which takes seconds to load, so functions import them. Until its first picture, a page
asks a finished run's record instead.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from retrofit_app.figures import lettered
from retrofit_core.runs import config as settings
from retrofit_core.runs.store import read_json

from .records import Entry


def table() -> Mapping[str, Any]:
    """The library's methods by name, in its order; each has `sentence`, `takes`, `fixed` and `parts`."""
    from retrofit_core.methods import METHODS

    return METHODS


def importances() -> Mapping[str, Any]:
    """The library's importance scores by name."""
    from retrofit_core.fusion.importance import IMPORTANCE

    return IMPORTANCE


def groupings() -> Mapping[str, Any]:
    """The library's groupings by name."""
    from retrofit_core.fusion.grouping import GROUPINGS

    return GROUPINGS


def takes(method: str) -> Any:
    """What a method takes (a `Takes`); nothing if this version does not know it."""
    from retrofit_core.fusion.task import Takes
    from retrofit_core.system.registry import known_name

    try:
        return table()[known_name(table(), method, "method")].takes
    except ValueError:
        return Takes()


def weighs(entry: Entry) -> bool:
    """Whether a run weighs neurons by importance."""
    made = decided(entry)
    return "importance" in made if made else takes(entry.config.get("method", "")).importance


def goes_level_by_level(entry: Entry) -> bool:
    """Whether a run fits level by level to targets and so has both errors and an analysis."""
    made = fusion(entry)
    return {"grouping", "fit"} <= made.keys() if made else takes(entry.config.get("method", "")).levels


def why_no_analysis(entry: Entry) -> str:
    """Why a run that does not go level by level has no analysis, as the beginning of a sentence."""
    return f"{entry.config['method']} aligns neurons and fits no level"


def is_fitted(entry: Entry) -> bool:
    """Whether a run fits each level instead of averaging its weights."""
    return fusion(entry).get("refit", True)


def is_trained_after(entry: Entry) -> bool:
    """Whether the fused network was trained as a whole after the last fit."""
    return {"fit", "curve"} <= fusion(entry).keys()


def keeps_parents(entry: Entry) -> bool:
    """Whether the result is all networks side by side."""
    return not goes_level_by_level(entry) and takes(entry.config.get("method", "")).keeps_parents


def uses_samples(entry: Entry) -> bool:
    """Whether the run uses fusion samples."""
    return goes_level_by_level(entry) or takes(entry.config.get("method", "")).uses_data


def auto_choice(entry: Entry) -> str:
    """What a finished run of Auto chose: "KF-Linear, conductance", or "parent 0" if no fusion beat that; empty for others."""
    return settings.choice_of(decided(entry))


def auto_words(entry: Entry) -> str:
    """What Auto chose, after its name: ": network D"; empty for other methods."""
    return f": {lettered(name)}" if (name := auto_choice(entry)) else ""


def keeps_one(entry: Entry) -> str:
    """The network that Auto kept, "network D", because no fusion beat it; empty if it or another method fused."""
    return lettered(name) if (name := auto_choice(entry)).startswith("parent ") else ""


def fusion(entry: Entry) -> Mapping[str, Any]:
    """The settings of the fusion in a finished run's result: those that Auto chose, or `decided`."""
    made = decided(entry)
    return made.get("chosen") or made


def score(entry: Entry) -> str:
    """The importance score of a run's fusion: of a finished Auto, that of the fusion that it chose."""
    return fusion(entry).get("importance") or entry.config["importance"]


def decided(entry: Entry) -> Mapping[str, Any]:
    """The settings in a finished run's result; {} if it is unfinished or damaged."""
    return _decided(*entry.version) if entry.status.get("state") == "done" else {}


@lru_cache(maxsize=5000)  # a list of all runs asks every one
def _decided(folder: str, updated: float) -> Mapping[str, Any]:
    config = read_json(Path(folder) / "result.json").get("config")
    return config if isinstance(config, dict) else {}
