"""Who knows which class, as small HTML drawings."""

from collections.abc import Sequence
from html import escape

from .palette import Palette
from .picture import percent

LABELLED = 20  # classes up to which every column has its name
KNOWN = 5.0  # per cent of a class right, from which on a network counts as knowing it
SHORT = 3  # letters that fit below a column


def class_card(
    title: str,
    subtitle: str,
    per_class: Sequence[float | None],
    classes: Sequence[str],
    palette: Palette,
    *,
    fused: bool = False,
    seen: Sequence[bool] | None = None,
) -> str:
    """One network as HTML: a column per class, as high as its accuracy; classes without training images are hollow."""
    colour = palette.accent if fused else palette.grey
    # Names such as "airplane" stand upright below their column.
    turned = (
        ""
        if max(map(len, classes)) <= SHORT
        else (
            "writing-mode:vertical-rl;height:7em;margin:3px auto 0;text-align:left;overflow:hidden;text-overflow:ellipsis;"
            "white-space:nowrap"
        )
        if len(classes) <= LABELLED
        else ""
    )
    knows = list(seen) if seen else [(value or 0) >= KNOWN for value in per_class]
    columns = []
    for name, value, known in zip(classes, per_class, knows, strict=True):
        height = max(2, round(0.72 * (value or 0)))
        label = f"<b>{escape(name)}</b>" if known else f"<span style='opacity:.75'>{escape(name)}</span>"
        label = label if len(classes) <= LABELLED else ""
        fill = colour if known else "transparent"
        tip = escape(f"{name}: {percent(value or 0, 0)}", quote=True)
        columns.append(
            f"<div style='flex:1;min-width:0;text-align:center' title='{tip}'>"
            f"<div style='height:76px;display:flex;align-items:flex-end'>"
            f"<div style='width:100%;height:{height}px;background:{fill};border:1px solid {colour};box-sizing:border-box;"
            f"border-radius:2px 2px 0 0'></div></div><div style='font-size:14px;line-height:1.5;color:{palette.ink};{turned}'>"
            f"{label}</div></div>"
        )
    names = [name for name, known in zip(classes, knows, strict=True) if known]
    alt = f"{title}, {subtitle}: knows {len(names)} of {len(classes)} classes ({', '.join(names)})."
    border = f"2px solid {palette.accent}" if fused else f"1px solid {palette.line}"
    return (
        f"<div role='img' aria-label='{escape(alt, quote=True)}' style='flex:1 1 0;min-width:0;border:{border};"
        f"border-radius:8px;padding:10px 14px 8px;color:{palette.ink}'><div style='font-weight:600;font-size:16px'>"
        f"{escape(title)}</div><div style='font-size:14px;color:{palette.muted};margin-bottom:6px'>{escape(subtitle)}</div>"
        f"<div style='display:flex;gap:{4 if len(classes) <= LABELLED else 0}px'>{''.join(columns)}</div></div>"
    )


def cards(left: Sequence[str], right: str, palette: Palette) -> str:
    """Parents, an arrow, the fused network; below each other on narrow screens."""
    style = (
        "<style>.retrofit-cards{display:flex;gap:10px}.retrofit-cards .sign{align-self:center;font-size:22px;line-height:1}"
        "@media(max-width:700px){.retrofit-cards{flex-direction:column}.retrofit-cards .arrow{transform:rotate(90deg)}}</style>"
    )
    plus = f"<div class='sign' aria-hidden='true' style='color:{palette.muted}'>+</div>"
    arrow = f"<div class='sign arrow' aria-hidden='true' style='color:{palette.muted}'>→</div>"
    return f"{style}<div class='retrofit-cards'>{plus.join(left)}{arrow}{right}</div>"
