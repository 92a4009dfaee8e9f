"""Building blocks of pages: pictures with menus, tables, files, texts to copy, and what they read from records."""

from .charts import chart, palette, split, why
from .downloads import csv
from .window import enlarged
from .works import stop
