"""Names and sentences from tables and values for help texts; importing this module takes seconds."""

from collections.abc import Mapping

from ..catalogue import CATALOGUE
from ..data import DATASETS
from ..data.augment import POLICIES
from ..data.splits import SPLITS
from ..experiments.scales import SCALES
from ..experiments.tables import TABLES
from ..fusion.grouping import GROUPINGS
from ..fusion.importance import IMPORTANCE, Importance
from ..inspection.landscape import ALIGNMENTS
from ..networks.architectures import PRESETS
from ..networks.levels import BOUNDARIES
from ..system.settings import settings_of
from ..training import RECIPES


def words() -> Mapping[str, str]:
    """Text for each `{name}` in a help text."""
    tables = {
        "boundaries": BOUNDARIES,
        "data_sets": DATASETS,
        "groupings": GROUPINGS,
        "methods": CATALOGUE,
        "policies": POLICIES,
        "presets": list(PRESETS)[:3],
        "recipes": RECIPES,
        "scores": IMPORTANCE,
        "splits": SPLITS,
        "tables": TABLES,
    }
    return {
        **{name: ", ".join(table) for name, table in tables.items()},
        "alignments": " or ".join(ALIGNMENTS),
        "scales": "; ".join(f"{scale.name}: {scale.sentence}" for scale in SCALES.values()),
        "scores_with_options": _scores_with_options(),
    }


def _scores_with_options() -> str:
    """The names of the scores, each with its own options."""
    own = {name: [*settings_of(cls).keys() - settings_of(Importance).keys()] for name, cls in IMPORTANCE.items()}
    return ", ".join(f"{name} ({', '.join(sorted(fields))})" if fields else name for name, fields in own.items())
