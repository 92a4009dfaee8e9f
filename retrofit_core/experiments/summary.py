"""Summary of a report: how many of the paper's numbers are measured, and how many of its claims hold.

Each number and claim counts once, at its fullest measured scale. `smoke`, which is not informative about accuracy, does not
count, and neither does what was measured on another data set than the paper's: that is summarised apart.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .claims import DECIDED, Claim
from .report_parts import Block, TableReport
from .scales import BEST_FIRST

#: The scales that are informative about accuracy, the fullest first.
SAYING = tuple(name for name in BEST_FIRST if name != "smoke")
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Count:
    """Measurements of a table at one scale, with parents of one kind."""

    table: str
    badge: str
    scale: str
    numbers: int
    """How many of the paper's numbers are measured"""
    claims: tuple[Claim, ...]
    """Decided claims: agreed, undecided or contradicted"""


@dataclass(frozen=True)
class Summary:
    """Summary of all tables of a report."""

    numbers: int
    """Numbers that the paper prints in these tables"""
    claims: int
    """Its claims in them: nonzero differences"""
    counts: tuple[Count, ...]
    """By table, then by scale, the fullest first"""
    substituted: tuple[Count, ...] = ()
    """The same of what was measured on another data set than the paper's, which `measured` and `decided` leave out"""

    def measured(self, least: str = SAYING[-1]) -> int:
        """How many of the paper's numbers are measured at this scale or a fuller one."""
        return sum(count.numbers for count in self.counts if _is_at_least(count, least))

    def decided(self, least: str = SAYING[-1]) -> list[Claim]:
        """The claims measured at this scale or a fuller one."""
        return [claim for count in self.counts if _is_at_least(count, least) for claim in count.claims]


def verdicts(claims: Iterable[Claim]) -> tuple[int, int, int]:
    """Numbers of agreed, undecided and contradicted claims."""
    reached = Counter(claim.verdict for claim in claims)
    agreed, undecided, contradicted = (reached[verdict] for verdict in DECIDED)
    return agreed, undecided, contradicted


def summarised(tables: Sequence[TableReport]) -> Summary:
    """The summary of complete tables, including unmeasured lines and claims."""
    blocks = [(table.name, block) for table in tables for block in table.blocks]
    numbers = {
        (table, block.column, line.row) for table, block in blocks for line in block.lines if line.paper is not None
    }
    claims = {
        (table, block.column, claim.left, claim.right)
        for table, block in blocks
        for claim in block.claims
        if claim.paper
    }
    own = [(table, block) for table, block in blocks if not block.substitute]
    others = [(table, block) for table, block in blocks if block.substitute]
    return Summary(len(numbers), len(claims), _counts(own), _counts(others))


def _counts(blocks: Sequence[tuple[str, Block]]) -> tuple[Count, ...]:
    """How many numbers and claims are measured in each table, at each scale; each counts once."""
    numbered, decided = dict[Hashable, str](), dict[Hashable, Claim]()
    counts = []
    for table in dict.fromkeys(table for table, _ in blocks):
        of_table = [block for name, block in blocks if name == table]
        for badge, same in _by_badge(of_table).items():
            new_numbers = _first(
                {
                    (block.column, line.row): badge
                    for block in same
                    for line in block.lines
                    if line.paper is not None and line.values
                },
                table,
                numbered,
            )
            new_claims = _first(
                {
                    (block.column, claim.left, claim.right): claim
                    for block in same
                    for claim in block.claims
                    if claim.verdict in DECIDED
                },
                table,
                decided,
            )
            if new_numbers or new_claims:
                counts.append(Count(table, badge, same[0].scale, len(new_numbers), tuple(new_claims)))
    return tuple(counts)


def _by_badge(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """Badge -> blocks at informative scales, the fullest first."""
    written: dict[str, list[Block]] = {}
    for block in sorted(
        (block for block in blocks if block.scale in SAYING), key=lambda block: SAYING.index(block.scale)
    ):
        written.setdefault(block.badge, []).append(block)
    return written


def _first(things: Mapping[tuple[str, ...], Thing], table: str, known: dict[Hashable, Thing]) -> list[Thing]:
    """The things that no fuller scale has; they are added to `known`."""
    new: dict[Hashable, Thing] = {(table, *key): thing for key, thing in things.items() if (table, *key) not in known}
    known.update(new)
    return list(new.values())


def _is_at_least(count: Count, least: str) -> bool:
    return SAYING.index(count.scale) <= SAYING.index(least)
