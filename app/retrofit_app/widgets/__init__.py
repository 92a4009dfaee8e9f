"""What pages are made of: pictures with their menu, tables, files, texts to copy, and what is read from a record for them."""

from .charts import chart, palette, split, why
from .downloads import Several, csv, html, origin
from .menu import menu
from .unfolding import unfolds
from .window import enlarged
from .works import stop
