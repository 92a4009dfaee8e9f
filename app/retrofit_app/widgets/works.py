"""Work on a run that is kept and shown on its page, such as fine-tunings and landscapes: which one, and why it stopped."""

import re
from collections.abc import Callable, Sequence

from retrofit_app.address.rule import Parameter


def work_parameter(
    name: str, keys: Sequence[str], is_going: Callable[[str], bool], what: str, until_run: bool = False
) -> Parameter:
    """The parameter that names one piece of work: the first by default, or one that has just been started.

    Args:
        what: it is, in words: "fine-tuning".
    """

    def read(text: str) -> str:
        if text not in keys and not (re.fullmatch(r"[0-9a-f]{10}", text) and is_going(text)):
            raise ValueError(f"no such {what} of this run")
        return text

    return Parameter(name, keys[0] if keys else "", read, of_run=True, until_run=until_run)
