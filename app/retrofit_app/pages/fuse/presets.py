"""The form's starting points; the address holds what differs from one of them."""

from dataclasses import dataclass, fields

from retrofit_app.address.rule import option, parameters_of
from retrofit_app.address.session import Scope

from .parameters import Picks


@dataclass(frozen=True)
class Preset:
    """A starting point of the form."""

    title: str
    sentence: str
    picks: Picks


PRESETS: dict[str, Preset] = {
    "shipped": Preset(
        "The shipped pair",
        "Two trained networks that come with the workbench, each blind to half of the digits. Nothing is trained: the "
        "fusion takes seconds. The shipped runs weigh neurons by conductance, this one by DeepLIFT.",
        Picks(networks="shipped", split_seed=1, importance="deeplift"),  # what is shipped could not be started
    ),
    "sharded": Preset(
        "Sharded digits",
        "Train two small networks, each on five digits that the other never sees; then fuse them into one that knows "
        "all ten.",
        Picks(),
    ),
    "four": Preset(
        "Non-IID, four ways",
        "Four networks get very unequal shares of every digit. Pairing neurons one to one stops at two networks; "
        "grouping them does not.",
        Picks(parents=4, split="dirichlet", samples=200),
    ),
    "twins": Preset(
        "Permuted twins",
        "A network, and the same network with its neurons in another order. Plain averaging ruins them; fusion must find the "
        "order and lose nothing.",
        Picks(split="twins", method="HF-Linear", importance="uniform"),
    ),
    "widths": Preset(
        "Different widths",
        "A network of normal width and one of half the width. They cannot be averaged at all; grouping fuses them "
        "into the first one's shape.",
        Picks(split="dirichlet", widths="1,0.5"),
    ),
    "compress": Preset(
        "Compress one network",
        "A single network of double width, whose neurons are grouped into a network of normal width.",
        Picks(parents=1, split="full", widths="2", fused="1"),
    ),
    "own": Preset(
        "Bring your own",
        "Your checkpoints on this machine, and the data set they were trained on.",
        Picks(networks="own", importance="uniform"),
    ),
}


FIRST = "shipped"
#: What a preset's sentence is about.
NETWORKS = ("networks", "parents", "split", "widths")
NAMES = tuple(field.name for field in fields(Picks))


FORM = Scope("fuse")
PRESET = option("preset", list(PRESETS), FIRST, "preset")


def read() -> tuple[str, Picks]:
    """The preset and the picks, from the address or the controls; a preset's values are the defaults."""
    preset = FORM.one(PRESET)
    return preset, FORM.read(Picks, parameters_of(PRESETS[preset].picks))


def holds(preset: str, picks: Picks) -> bool:
    """Whether a preset's networks are still the picked ones, so that its sentence is true."""
    return all(getattr(picks, name) == getattr(PRESETS[preset].picks, name) for name in NETWORKS)


def last() -> Picks:
    """The picks as last read or written; for callbacks."""
    return Picks(**{name: FORM.current(name) for name in NAMES})


def choose(picks: Picks) -> None:
    """Make these the picks; for callbacks."""
    FORM.change(**{name: getattr(picks, name) for name in NAMES})
