"""Every table and figure of the paper: what is measured, the runner, and the paper's numbers next to ours."""

from .reproduction import Markdown, ReproducedColumn, ReproducedTable, table
