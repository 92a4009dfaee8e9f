"""Options of `retrofit fuse` and `retrofit compare` made from the settings of methods, groupings and scores."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import typer

from ..system.texts import flag, read_value
from .application import Explained


class OfMethods(Explained):
    """A command that also takes the settings of methods, which it finds in `context.obj`.

    Reading them imports torch, which takes seconds, so that only a command line with such a setting does.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the settings of methods out of the words, then parse."""
        own = {"--help", "--", *(word for entry in self.params for word in (*entry.opts, *entry.secondary_opts))}
        ctx.obj, words = _settings_in(args, own)
        return super().parse_args(ctx, words)


def _settings_in(args: Iterable[str], own: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings of methods, given as `--restarts 20`, `--repair` or `--no-repair`, and the other words.

    Args:
        own: the command's own options.
    """
    given: dict[str, Any] = {}
    others: list[str] = []
    words = iter(args)
    for word in words:
        option, sign, value = word.partition("=")
        if not option.startswith("--") or option in own:
            others.append(word)
        else:
            name, usual = _setting_of(option, own)
            if usual is None:
                value = value if sign else next(words, None)
                if value is None:
                    raise typer.BadParameter(f"Option {option} requires an argument.")
                given[name] = read_value(value)
            else:
                given[name] = usual
    return given, others


def _setting_of(option: str, own: set[str]) -> tuple[str, bool | None]:
    """The name of a setting, and its value if the option alone says it."""
    from ..methods import all_settings  # imports torch, which takes seconds

    options: dict[str, tuple[str, bool | None]] = {}
    for name, entry in all_settings().items():
        switch = entry.kinds == (bool,)
        options[flag(name)] = name, True if switch else None
        if switch:
            options[flag(f"no_{name}")] = name, False
    if option not in options:
        near = get_close_matches(option, [*own, *options], n=3, cutoff=0.8)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise typer.BadParameter(f"{option} is no option of this command or of a method.{hint}")
    return options[option]
