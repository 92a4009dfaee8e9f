"""The paper's numbers beside ours: each with its interval, differences with their signs.

Pictures draw columns of `retrofit_core.experiments.table`.
"""

from .beside import beside_in_parts, beside_the_paper, in_order
from .signs import differences
