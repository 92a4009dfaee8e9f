r"""Formulas as MathML, which browsers draw themselves: no script, no font and no network are needed.

A page writes a block ```math, or $x$ within a sentence: plain repository pages draw both too.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

#: What arithmatex leaves of $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """A block ```math as MathML; its lines stand below each other."""
    return f'<div class="formula">{block(source)}</div>'


def block(latex: str) -> str:
    """A formula on a line of its own."""
    return _drawn(" ".join(latex.split()), "block")


def drawn(page: str) -> str:
    """The HTML of a page with its formulas drawn."""
    page = INLINE.sub(lambda found: _drawn(html.unescape(found[1]), "inline"), page)
    return BLOCK.sub(lambda found: f'<div class="formula">{block(html.unescape(found[1]))}</div>', page)


def _drawn(latex: str, display: str) -> str:
    """A formula as MathML.

    Raises:
        ValueError: it has commands or an environment that latex2mathml does not know, and would leave as they are.
    """
    mathml = convert(latex, display=display)
    if re.search(r">[^<]*(\\|&amp;)", mathml):
        raise ValueError(f"latex2mathml cannot draw all of {latex!r}. Write it in other words.")
    return mathml
