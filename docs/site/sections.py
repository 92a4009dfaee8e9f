"""Docstrings as griffe reads them: it wants an empty line before each section, which ours do not have."""

import re
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"(?<!\n)\n(?=(Args|Returns|Yields|Raises|Attributes|Examples):\n)")


class EmptyLines(Extension):
    """Puts the empty lines in, once a name and its docstring have been read."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """See `Extension`."""
        if obj.docstring is not None:
            obj.docstring.value = SECTION.sub("\n\n", obj.docstring.value)
