"""What pages are made of: pictures with their menu, tables, files, texts to copy, and what is read from a record for them."""

from .charts import chart
from .downloads import csv, html, origin
from .menu import menu
from .notes import why
from .origins import Several
from .split import split
from .stopping import stop
from .theme import palette
from .window import window
