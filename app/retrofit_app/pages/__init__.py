"""The pages, one folder each. A new page is a folder whose `page.py` has a function `page`, and a line here.

Pages import shared rooms, never each other: links to other pages go through the shell, by name.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """What the menu needs of a page."""

    name: str
    """Its folder's name, also in the address (the first page has none there)"""
    title: str
    icon: str
    kept: tuple[str, ...] = ()
    """Scopes whose parameters its menu link carries, so that users return to their earlier choices"""
    carried: tuple[str, ...] = ()
    """Words of the address that this link keeps from any page"""


PAGES = (
    Listed("fuse", "Fuse", ":material/merge:", kept=("fuse", "fuse-view"), carried=("example",)),
    Listed("levels", "Levels", ":material/stacks:", carried=("example",)),
    Listed("landscape", "Landscape", ":material/landscape:"),
    Listed("compare", "Compare", ":material/compare_arrows:", kept=("compare",)),
    Listed("paper", "Paper", ":material/menu_book:", kept=("paper",)),
    Listed("learn", "Learn", ":material/school:"),
)
