"""What pages are made of: pictures with their menu, tables, files, texts to copy, and what is read from a record for them."""

from .charts import chart, data
from .downloads import csv, html, origin
from .notes import why
from .split import split
from .theme import palette

__all__ = ["chart", "csv", "data", "html", "origin", "palette", "split", "why"]
