"""Every table and figure of the paper: its units of work, the runner, and the paper's numbers next to ours."""

from .reproduction import Markdown, ReproducedColumn, ReproducedTable, table
