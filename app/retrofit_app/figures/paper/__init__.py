"""The paper's numbers beside ours: each with its interval, differences with their signs.

Pictures draw columns of `retrofit_core.experiments.table`.
"""

from .signs import differences
