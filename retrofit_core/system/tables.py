"""Tables as text: Markdown, and cells of LaTeX."""

from collections.abc import Collection, Sequence

ESCAPES = str.maketrans(
    {sign: rf"\{sign}" for sign in "%&_#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "†": r"$\dagger$", "…": r"\ldots{}"}
    | {"\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--", "\N{NO-BREAK SPACE}": "~"}
)


def latex_escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(ESCAPES)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """A Markdown table with aligned columns, readable as text. Cells are Markdown; bars within them must be escaped.

    Args:
        right: columns that a renderer aligns right.
    """
    widths = [max(3, *map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * (width - 1) + ":" if index in right else "-" * width for index, width in enumerate(widths)]
    lines = (
        " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in (header, rule, *rows)
    )
    return "\n".join(f"| {line} |" for line in lines)
