"""Every table and figure of the paper: its units of work, the runner, and the paper's numbers next to ours."""

from . import report_formats  # says how columns and tables are displayed
from .reproduction import Display, ReproducedColumn, ReproducedTable, table
