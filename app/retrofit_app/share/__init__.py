"""A finished run as one HTML file, for readers without the workbench: no server, no network, figures that answer the pointer.

It has the app's figures and words; figures are in it twice, in light and in dark colours.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path, PurePath
from typing import Any

from plotly.offline import get_plotlyjs
from plotly.utils import PlotlyJSONEncoder

from retrofit_app import figures, runs
from retrofit_app.figures import CONFIG, DARK, LIGHT, plain_text
from retrofit_app.figures.landscape import KINDS, average_words, caption
from retrofit_app.runs import followups, headline, ingredients, levels, methods
from retrofit_app.shell.style import stylesheet
from retrofit_app.widgets import pictures, readings
from retrofit_core.catalogue import CATALOGUE
from retrofit_core.runs.store import FINETUNING, LANDSCAPE

FOLDER = Path(__file__).parent
#: Most levels whose neurons are drawn: those that lose most.
MOST_LEVELS = 12
#: Nothing is loaded from anywhere, whatever a name in the record says.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
#: What a reader needs to know first.
INTRODUCTION = (
    "Accuracies are those on test images, and columns those of each class. Point at a figure to read its values."
)
RETROFITTING = (
    "Retrofitting goes through the networks level by level: it groups their neurons, and fits the weights of the new network "
    "so that each of its neurons gives the mean of a group."
)
CLUSTERS = (
    "Every mark is a neuron; its shape is its network, its area its importance. Neurons that respond alike are near each other. "
    "Each group becomes one neuron of the fused network; the largest have a colour each, and hollow marks are alone in theirs."
)
PLANES = "Every point of the plane is a network, too: a mixture of the three that span it."


def page(entry: runs.Entry) -> str:
    """The whole file of a finished run; a part whose files are damaged says so in its place.

    Raises:
        ValueError: the run is not finished.
    """
    if entry.state != "done":
        raise ValueError(f"run {entry.name} is {entry.state}, and only finished runs can be shared. Finish it first.")
    title = headline.title(entry, runs.class_counts(entry)) if entry.metrics.get("networks") else _plain_title(entry)
    parts = (
        (title, _networks),
        (pictures.CHARTS["ingredients"].question, _ingredients),
        (pictures.CHARTS["levels"].question, _levels),
        (pictures.CHARTS["clusters"].question, _clusters),
        ("What is between the networks?", _landscape),
        ("How was it made?", _origin),
    )
    inside = "".join(
        _section(heading, part, entry, "h2" if index else "h1") for index, (heading, part) in enumerate(parts)
    )
    colours = "".join(
        f"{ground}{{{palette.css}}}}}"
        for ground, palette in (
            ("@media all{:root", LIGHT),
            ("@media screen and (prefers-color-scheme:dark){:root", DARK),
        )
    )
    script = f"const CONFIG={json.dumps(CONFIG)};\n{(FOLDER / 'page.js').read_text(encoding='utf-8')}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<meta http-equiv='Content-Security-Policy' content=\"{POLICY}\"><meta name='color-scheme' content='light dark'>"
        f"<title>{escape(title)} · {escape(entry.name)}</title>"
        f"<style>{colours}{(FOLDER / 'page.css').read_text(encoding='utf-8')}</style>{stylesheet('tiles')}</head>"
        f"<body><main>{inside}</main><script>{get_plotlyjs()}</script><script>{script}</script></body></html>"
    )


def _section(heading: str, part: Callable[[runs.Entry], Iterable[str]], entry: runs.Entry, tag: str) -> str:
    """A part below its heading; nothing if the run has no such part."""
    try:
        inside = "".join(part(entry))
    except ValueError as error:
        inside = _text(f"Not shown: {runs.without_folders(error, entry.folder)}")
    return f"<section><{tag}>{escape(heading)}</{tag}>{inside}</section>" if inside else ""


# --- the parts ------------------------------------------------------------------------------------


def _plain_title(entry: runs.Entry) -> str:
    return headline.networks_title(len(entry.config["models"]), methods.keeps_parents(entry))


def _networks(entry: runs.Entry) -> Iterator[str]:
    """Introduction, tiles, finding."""
    known = CATALOGUE.get(entry.config["method"])
    does = RETROFITTING if methods.goes_level_by_level(entry) else known.sentence if known else ""
    yield _text(f"{INTRODUCTION} {does}")
    if not entry.metrics.get("networks"):
        yield _text("No accuracies were measured.", "claim")
        return
    counts = runs.class_counts(entry)
    tuned = next(filter(followups.has_network, followups.works_of(entry, FINETUNING)), None)
    shown = headline.rows(entry, counts, tuned)
    # The colours are the page's, which follow its theme.
    yield figures.tiles(shown, entry.metrics["classes"], LIGHT).replace(LIGHT.css, "")
    yield _text(f"{headline.finding(entry)} {headline.shortfall(entry, counts)}", "claim")
    yield _text(headline.reading(entry, any(any(tile.guessed) for row in shown for tile in row)), "small")


def _ingredients(entry: runs.Entry) -> Iterator[str]:
    if ingredients.has_some(entry) and ingredients.work_of(entry).state == "done":
        yield from _claimed(entry, "ingredients", ingredients.READING)


def _levels(entry: runs.Entry) -> Iterator[str]:
    """The strip over all levels."""
    overview = readings.overview(entry)
    if not overview.table.empty:
        yield from _claimed(entry, "levels", levels.strip_words(entry, overview), overview.worst)


def _clusters(entry: runs.Entry) -> Iterator[str]:
    """The groups of the levels that lose most."""
    table = readings.overview(entry).table
    if table.empty:
        return
    losses = (table["grouping share"] + table["approximation share"]).tolist()
    most = sorted(sorted(range(len(losses)), key=lambda index: -losses[index])[:MOST_LEVELS])
    yield _text(CLUSTERS)
    if len(most) < len(losses):
        yield _text(f"The {MOST_LEVELS} of {len(losses)} levels with the largest errors are drawn.")
    yield "<div class='pair'>"
    for index in most:
        yield _figure(entry, "clusters", heading=f"Level {index + 1} · {table['level'][index]}", level=index)
    yield "</div>"
    grouped = readings.grouping(entry, most[0])
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        yield f"<div class='{name}'>{figures.cluster_key(len(grouped.widths), len(grouped.labels), theme)}</div>"


def _landscape(entry: runs.Entry) -> Iterator[str]:
    """The newest complete landscape."""
    whole = next((work for work in followups.works_of(entry, LANDSCAPE) if work.state == "done"), None)
    if whole is None:
        return
    survey = readings.survey(whole)
    yield _text(f"{average_words(survey)} {figures.headline(survey)}", "claim")
    yield _text(PLANES)
    yield "<div class='pair planes'>"
    for kind in KINDS:
        yield _figure(entry, kind, heading=pictures.CHARTS[kind].question, work=whole)
    yield "</div>"
    yield _text(caption(survey), "small")


def _origin(entry: runs.Entry) -> Iterator[str]:
    """The run's settings, the command that repeats it, and where the file comes from."""
    from retrofit_core.runs import RunConfig
    from retrofit_core.runs.config import commands

    yield _text(f"{runs.details(entry)}.")
    config, training = RunConfig.from_json(entry.config), runs.training_of(entry)
    named = {kind: _without_folders(getattr(config, kind)) for kind in ("data", "splits", "target")}
    config = replace(config, models=tuple(map(_without_folders, config.models)), **named)
    training = training and replace(training, data=_without_folders(training.data))
    yield f"<pre>{escape(commands([(config, training)]))}</pre>"
    yield _text(f"{runs.source(entry)}. {runs.LICENCE}", "small")


def _without_folders(name: Any) -> Any:
    """A file's name without the folders of this machine; other values as they are."""
    return PurePath(name).name if isinstance(name, str) and PurePath(name).is_absolute() else name


# --- their pieces ---------------------------------------------------------------------------------


def _text(markdown: str, kind: str = "") -> str:
    text = plain_text(markdown)
    return f"<p class='{kind}'>{escape(text)}</p>" if text else ""


def _claimed(entry: runs.Entry, name: str, words: str, level: int = 0) -> Iterator[str]:
    """One of CHARTS below its finding."""
    yield _text(pictures.picture(entry, name, LIGHT, level).caption, "claim")
    yield _figure(entry, name, words, level=level)


def _figure(entry: runs.Entry, name: str, words: str | None = None, heading: str = "", **options: Any) -> str:
    """One of CHARTS in both themes' colours, with words (by default its caption) below."""
    light, dark = (pictures.picture(entry, name, palette, **options) for palette in (LIGHT, DARK))
    both = {"light": light.figure.to_plotly_json(), "dark": dark.figure.to_plotly_json()}
    content = json.dumps(both, cls=PlotlyJSONEncoder).replace("<", "\\u003c")
    above = f"<h3>{escape(heading)}</h3>" if heading else ""
    return (
        f"<figure>{above}<div class='plot' role='img' style='min-height:{light.figure.layout.height}px' "
        f"aria-label='{escape(light.alt, quote=True)}'></div><script type='application/json'>{content}</script>"
        f"<figcaption>{escape(plain_text(light.caption if words is None else words))}</figcaption></figure>"
    )
