"""The pages, a folder each. A new one is a folder whose `page.py` has a function `page`, and a line here.

Pages import the shared rooms and never each other: a link to another page asks the shell, by name.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """A page as the menu needs it."""

    name: str
    """Of its folder, and of the page in the address (but the first, which has none)"""
    title: str
    icon: str
    kept: tuple[str, ...] = ()
    """Scopes of its parameters that its link in the menu carries, so that one comes back to what was chosen before"""
    carried: tuple[str, ...] = ()
    """Words of the address that this link takes along from any page"""


PAGES = (
    Listed("fuse", "Fuse", ":material/merge:", kept=("fuse", "fuse-view"), carried=("example",)),
    Listed("levels", "Levels", ":material/stacks:", carried=("example",)),
    Listed("landscape", "Landscape", ":material/landscape:"),
    Listed("compare", "Compare", ":material/compare_arrows:", kept=("compare",)),
    Listed("paper", "Paper", ":material/menu_book:", kept=("paper",)),
    Listed("learn", "Learn", ":material/school:"),
)
