"""Docstrings as griffe is to read them."""

import re
from pydoc import locate
from typing import Any

from griffe import Attribute, Docstring, Extension, Object

from retrofit_core.system.settings import Value, settings_of

SECTION = re.compile(r"(?<!\n)\n(?=(Args|Returns|Yields|Raises|Attributes|Examples):\n)")


class Docstrings(Extension):
    """Puts an empty line before each section, which ours do not have, and beside the options of values what they are."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """See `Extension`; called once a name and its docstring have been read."""
        if obj.docstring is not None:
            obj.docstring.value = SECTION.sub("\n\n", obj.docstring.value)

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """A field that `setting` makes: its default, and what it takes and is."""
        value = locate(attr.parent.path) if attr.parent is not None and str(attr.value).startswith("setting(") else None
        if isinstance(value, type) and issubclass(value, Value) and attr.name in (settings := settings_of(value)):
            entry = settings[attr.name]
            attr.value = str(entry.default)
            attr.docstring = Docstring(f"{entry.help} ({entry.description}).", parent=attr)
