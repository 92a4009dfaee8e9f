"""Every table and figure of the paper: what it needs, the runner that measures it, and the paper's numbers beside ours."""

from .reproduction import Display, ReproducedColumn, ReproducedTable, table

__all__ = ["ReproducedColumn", "ReproducedTable", "Display", "table"]
