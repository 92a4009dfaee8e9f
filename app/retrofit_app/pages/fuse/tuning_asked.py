"""What the address says of fine-tunings: which one is shown, and the form of the next one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retrofit_app.address.readers import decimal, one_of, whole
from retrofit_app.address.rule import declared
from retrofit_app.address.session import Scope
from retrofit_app.widgets.works import Shelf
from retrofit_core.runs.store import FINETUNING

TUNING = Scope("tuning")
PRECISIONS = ("auto", "float32", "bfloat16")
MOST_EPOCHS, MOST_SEED, LEAST_RATE = 1000, 9999, 1e-6


@dataclass(frozen=True)
class TuningForm:
    """What the form asks for."""

    tune_epochs: int = declared(30, whole(1, MOST_EPOCHS))
    tune_rate: float = declared(3e-4, decimal(LEAST_RATE, 1, digits=7))
    tune_precision: str = declared("auto", one_of(PRECISIONS))
    tune_seed: int = declared(0, whole(0, MOST_SEED))


def _config(settings: Mapping[str, Any]) -> Any:
    from retrofit_core.runs.finetunings import FinetuneConfig

    return FinetuneConfig.from_json(settings)


TUNINGS = Shelf(FINETUNING, "fine-tuning", TUNING, "tuned", _config, until_run=True)
