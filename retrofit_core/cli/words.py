"""Names and sentences from tables and values for help texts; importing this module takes seconds."""

from collections.abc import Mapping

from ..catalogue import CATALOGUE
from ..data import DATASETS
from ..data.augment import POLICIES
from ..data.splits import SPLITS
from ..experiments.scales import SCALES
from ..experiments.tables import TABLES
from ..fusion.grouping import GROUPINGS, Grouper
from ..fusion.importance import IMPORTANCE, Importance
from ..inspection.landscape import ALIGNMENTS
from ..networks.architectures import PRESETS
from ..networks.levels import BOUNDARIES
from ..system.settings import Value, settings_of
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
        "groupings_with_options": _with_options(GROUPINGS, Grouper),
        "scores_with_options": _with_options(IMPORTANCE, Importance),
    }


def _with_options(table: Mapping[str, type[Value]], shared: type[Value]) -> str:
    """Names of a table, each with its own options."""
    options = {
        name: [field for field in settings_of(cls) if field not in settings_of(shared)] for name, cls in table.items()
    }
    return ", ".join(f"{name} ({', '.join(fields)})" if fields else name for name, fields in options.items())
