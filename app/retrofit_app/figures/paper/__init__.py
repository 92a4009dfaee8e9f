"""The paper's numbers beside ours: each with its interval, the order of the methods, differences with their signs.

Pictures draw columns of `retrofit_core.experiments.table`.
"""

from .beside import beside_in_parts, beside_the_paper, in_order
from .order import rank_against_rank
from .signs import differences
