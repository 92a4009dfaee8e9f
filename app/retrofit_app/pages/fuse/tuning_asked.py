"""What the address says of fine-tunings: which one is shown, and the form of the next one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import decimal, one_of, whole
from retrofit_app.address.rule import declared
from retrofit_app.address.session import Scope
from retrofit_app.widgets.works import work_parameter

TUNING = Scope("tuning")
PRECISIONS = ("auto", "float32", "bfloat16")
MOST_EPOCHS, MOST_SEED, LEAST_RATE = 1000, 9999, 1e-6


@dataclass(frozen=True)
class Asked:
    """What the form asks for."""

    tune_epochs: int = declared(30, whole(1, MOST_EPOCHS))
    tune_rate: float = declared(3e-4, decimal(LEAST_RATE, 1, digits=7))
    tune_precision: str = declared("auto", one_of(PRECISIONS))
    tune_seed: int = declared(0, whole(0, MOST_SEED))


def tuned(keys: Sequence[str], is_going: Callable[[str], bool]) -> str:
    """The key of the fine-tuning that is looked at, of these or one that has just been started; "" where there is none."""
    return TUNING.one(work_parameter("tuned", keys, is_going, "fine-tuning", until_run=True))


def declare() -> None:
    """Say that the page has these parameters, where it does not show them."""
    TUNING.declare("tuned", Asked)
