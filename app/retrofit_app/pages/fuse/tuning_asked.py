"""What the address says of fine-tunings: which one is shown, and the form of the next one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import decimal, one_of, whole
from retrofit_app.address.rule import Parameter, declared, parameters_of
from retrofit_app.address.session import Scope

TUNING = Scope("tuning")
PRECISIONS = ("auto", "float32", "bfloat16")
MOST_EPOCHS, MOST_SEED, LEAST_RATE = 1000, 9999, 1e-6


@dataclass(frozen=True)
class Shown:
    """Which one is looked at."""

    tuned: str
    """Its key; "" where there is none"""


@dataclass(frozen=True)
class Asked:
    """What the form asks for."""

    tune_epochs: int = declared(30, whole(1, MOST_EPOCHS))
    tune_rate: float = declared(3e-4, decimal(LEAST_RATE, 1, digits=7))
    tune_precision: str = declared("auto", one_of(PRECISIONS))
    tune_seed: int = declared(0, whole(0, MOST_SEED))


def shown(keys: Sequence[str], is_going: Callable[[str], bool]) -> Shown:
    """The fine-tuning, of these keys or one that has just been started."""

    def key(text: str) -> str:
        if text not in keys and not (re.fullmatch(r"[0-9a-f]{10}", text) and is_going(text)):
            raise ValueError("no such fine-tuning of this run")
        return text

    return TUNING.read(Shown, [Parameter("tuned", keys[0] if keys else "", key, of_run=True, until_run=True)])


def asked() -> Asked:
    """What is to be done next."""
    return TUNING.read(Asked, parameters_of(Asked()))


def declare() -> None:
    """Say that the page has these parameters, where it does not show them."""
    TUNING.declare(["tuned"])
    declare_form()


def declare_form() -> None:
    """Likewise, of the form alone."""
    TUNING.declare([parameter.word for parameter in parameters_of(Asked())])
