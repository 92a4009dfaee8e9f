"""The images of a run, normalised as in its networks' training."""

from collections.abc import Sequence
from pathlib import Path

from ..data import Images, load
from ..data.images import Constants
from ..networks.checkpoints import read_metadata
from .config import RunConfig


def read_images(config: RunConfig, split: str) -> Images:
    """A split of a run's data. If neither config nor data set have the normalisation, the checkpoints do.

    Raises:
        ValueError: as in `load`; or checkpoints with different normalisations.
    """
    return load(
        config.data, split, config.mean, config.std, config.size, stored=lambda: stored_constants(config.models)
    )


def stored_constants(models: Sequence[str | Path]) -> Constants | None:
    """Mean and standard deviation stored in checkpoints; None if none has them.

    Raises:
        ValueError: different values.
    """
    constants: dict[Constants, str] = {}
    for model in models:
        if Path(model).exists():
            facts = read_metadata(model)
            if isinstance(facts.get("mean"), list) and isinstance(facts.get("std"), list):
                constants.setdefault((tuple(facts["mean"]), tuple(facts["std"])), Path(model).name)
    if len(constants) > 1:
        said = "; ".join(f"{name}: {list(mean)}, {list(std)}" for (mean, std), name in constants.items())
        raise ValueError(
            f"the networks were trained on images with different normalisations ({said}). Choose one with --mean and "
            "--std."
        )
    return next(iter(constants), None)
