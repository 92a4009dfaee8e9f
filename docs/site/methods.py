"""A page for each method and for the values behind them, from the tables of the code and the records of benchmarks/results."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from grids import RESULTS, ROOT, grid, option_grid, record

from retrofit_core.catalogue import CATALOGUE, CONTROL
from retrofit_core.experiments.results import results_of
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.fusion.task import Takes
from retrofit_core.methods import BEYOND, METHODS, RETROFITTING, Method
from retrofit_core.system.settings import settings_of

NOTHING = "-"
#: How the names of the VGG pair's checkpoints begin.
PAIR = "cifar10-vgg11-noniid2"
YES_NO = {True: "yes", False: "no"}


def navigation() -> list[Any]:
    """The entries of the tab: the overview, one page a method, and what they are made of."""
    named = [{name: _path(name)} for name in CATALOGUE]
    return [
        "methods/index.md",
        {"All formulas": "formulas.md"},
        *named,
        {"Groupings, fits, scores": "methods/values.md"},
    ]


def pages() -> dict[str, str]:
    """Path -> Markdown.

    Raises:
        ValueError: a method without a formula, or a formula without a method.
    """
    sections = (ROOT / "docs" / "formulas.md").read_text().replace("](method.md", "](../method.md").split("\n## ")[1:]
    formulas = {
        name: text.strip()
        for names, _, text in (section.partition("\n") for section in sections)
        for name in names.split(", ")
    }
    if odd := METHODS.keys() ^ formulas.keys():
        raise ValueError(f"docs/formulas.md and the table of methods differ in {sorted(odd)}.")
    by_method = {_path(name): _page(method, formulas[name]) for name, method in METHODS.items()}
    return {**by_method, "methods/index.md": _overview(), "methods/values.md": _values()}


def _path(name: str) -> str:
    return f"methods/{name.lower()}.md"


def _overview() -> str:
    controls = tuple(name for name, method in METHODS.items() if method.kind == CONTROL)
    kinds = {"Retrofitting": RETROFITTING, "Beyond it, ours": BEYOND, "Controls of it": controls}
    ours = [name for names in kinds.values() for name in names]
    kinds["What it is compared with"] = tuple(name for name in METHODS if name not in ours)
    parts = [
        "# The methods",
        "All have one interface: the same inputs, the same result, the same refusals. `METHODS[NAME](parents, data)` in "
        "Python, `--method NAME` on the command line, *Method* in the workbench.",
        f"The last column is the accuracy in per cent on {_pair()}: the best that [the records](../measured.md) have with "
        "uniform scores, with conductance, and with REPAIR.",
    ]
    for title, names in kinds.items():
        rows = []
        for name in names:
            accuracies = [row["accuracy"] for row in _measured(name).values()]
            best = max(accuracies or _in_experiments(name).values(), default=None)
            line, number = CATALOGUE[name], NOTHING if best is None else f"{best:.2f}"
            rows.append((f"[{name}]({name.lower()}.md)", line.sentence, line.source or NOTHING, number))
        parts += [f"## {title}", grid(["method", "what it does", "source", "measured"], rows)]
    return "\n\n".join(parts)


def _pair() -> str:
    """The pair, samples, seeds and images of the record of all methods, with the accuracies of the parents."""
    facts = record("methods")
    reference = ", ".join(f"{name} {value:.2f}" for name, value in facts["reference"].items())
    return f"{facts['pair']} ({facts['samples']} samples, one fusion seed, {facts['test images']:,} test images; {reference})"


def _page(method: Method, formula: str) -> str:
    parts = {part: table[method.fixed[part]] for part, table in method.parts.items() if part in method.fixed}
    named = (
        f" {part.capitalize()}: [`{method.fixed[part]}`](values.md#{parts[part].__name__.lower()})." for part in parts
    )
    own_options = method.settings({"importance": "uniform"})
    options = [option_grid(own_options) if own_options else "None of its own."]
    if method.takes.importance:
        options.append("Scores have [options of their own](values.md#importance-scores).")
    options.append("Every method also takes `samples`, `seed`, `logits`, `device` and `monitor`.")
    name = method.name.lower()
    words = f"--method {name} --splits splits.json"
    sections = {
        "Formula": [formula],
        "What exactly it does": [_described(value) for value in (method.value, *parts.values())],
        "On the VGG pair": _numbers(method),
        "What it takes": [grid(["what", "taken"], _taken(method.takes).items())],
        "Options": options,
        "How it is called": [
            f'```text\nMETHODS["{method.name}"](parents, data).model\n'
            f"retrofit fuse a.safetensors b.safetensors {words} --out fused.safetensors\n```",
            f'`METHODS["{method.name}"].help()` and `retrofit fuse --method {name} --help` show the same options.',
        ],
    }
    source = (method.source or "none named").rstrip(".")
    head = [
        f"# {method.name}",
        f"{method.sentence}{''.join(named)}",
        f"**Source:** {source}. [Paper, public code and its licence](../licences.md#methods).",
    ]
    return "\n\n".join([*head, *(line for title, lines in sections.items() for line in (f"## {title}", *lines))])


def _described(value: type[Any]) -> str:
    """A docstring as Markdown: nothing in it is markup but its code, and pages that it names are links."""
    parts = re.split(r"(`[^`]+`)", inspect.getdoc(value) or "")
    parts[::2] = [re.sub(r"([*_])", r"\\\1", text).replace("<", "&lt;") for text in parts[::2]]
    return re.sub(r"docs/(\w+)\.md", r"[\1](../\1.md)", "".join(parts))


def _numbers(method: Method) -> list[str]:
    """What the records say of a method on the VGG pair."""
    facts, rows = record("methods"), _measured(method.name)
    if not rows:
        if accuracies := _in_experiments(method.name):
            studies = "[parts](../notebooks/90_ablation.md) and of [what goes beyond it](../notebooks/91_beyond.md)"
            words = f"Accuracy on {facts['pair']}, one fusion seed, from the studies of the method's {studies}:"
            return [words, grid([*accuracies], [[f"{accuracy:.2f}" for accuracy in accuracies.values()]])]
        reason = next((row.get("reason") for row in facts["uniform"]["rows"] if row["method"] == method.name), None)
        return [f"Not measured on this pair{f': {reason}' if reason else ''}."]
    titles = [title if method.takes.importance or title != "uniform" else "alone" for title in rows]
    least = [f"{min(row['variance'].values()):.1%}" if row.get("variance") else NOTHING for row in rows.values()]
    below = [
        ["accuracy", *(f"{row['accuracy']:.2f}" for row in rows.values())],
        ["least variance that a layer keeps", *least],
        ["seconds", *(f"{row['seconds']:.1f}" for row in rows.values())],
    ]
    machine, paper = facts["machine"], facts["paper"]
    measured_on = f"Measured on {machine['processor']}, {machine['threads']} threads, {machine['date']}."
    lines = [f"{_pair()}. {measured_on}", grid(["", *titles], below)]
    if seconds := paper["seconds"].get(method.name):
        lines.append(f"The paper's time on its own pair: {seconds} s ({paper['machine']}).")
    meaning = "[What the numbers mean](../measurements.md#every-method-on-one-pair). [All records](../measured.md)."
    return [*lines, *_over_seeds(method.name), meaning]


def _measured(name: str) -> dict[str, dict[str, Any]]:
    """How a method's neurons were weighed -> the row of the record of all methods."""
    titles = {"uniform": "uniform", "conductance": "conductance", "repair": "with REPAIR"}
    rows = {
        title: next(
            (row for row in record("methods")[part]["rows"] if row["method"] == name and "accuracy" in row), None
        )
        for part, title in titles.items()
    }
    return {title: row for title, row in rows.items() if row is not None}


#: Of the studies of the method's parts, on the same pair.
STUDIES = {"vgg11-noniid": "2-way", "ablation": "VGG11, non-IID", "beyond": "VGG11, non-IID"}


def _in_experiments(name: str) -> dict[str, float]:
    """Importance -> accuracy of a method with default options on the same pair, from our own tables of the experiments."""
    if METHODS[name].fixed.get("fit") == "ridge":
        return {}  # the tables have the paper's ridge
    rows = {f"{name}, {importance}": importance for importance in IMPORTANCE} | {name: "uniform"}
    return {
        rows[result.row]: result.value
        for table, column in STUDIES.items()
        for result in results_of(table, "none", [RESULTS / "experiments"])
        if (result.column, result.scale) == (column, "given VGG11s of full width, 14 epochs")
        and result.row in rows
        and result.value is not None
        and not result.seed
    }


def _over_seeds(name: str) -> list[str]:
    """Mean and deviation over fusion seeds, for the methods that have them."""
    rows, seeds = {}, 0
    for facts in (record(f"accuracy-{PAIR}-{fit}") for fit in ("linear", "gradient")):
        found = [row for row in facts["rows"] if row["method"] == name and row["ridge"] in ("toward zero, auto", "")]
        rows |= {row["importance"]: f"{row['mean']:.2f} ± {row['deviation']:.2f}" for row in found}
        seeds = len(facts["seeds"])
    words = f"Over {seeds} fusion seeds, mean ± deviation of the accuracy:"
    return [words, grid([*rows], [[*rows.values()]])] if rows else []


def _taken(takes: Takes) -> dict[str, str]:
    least, most = takes.parents
    several = f"any number from {least}" if most is None else f"{least} to {most}"
    return {
        "parents": str(least) if least == most else several,
        "widths": "equal" if takes.equal_widths else "any",
        "parents deeper than the fused network": YES_NO[takes.other_depths],
        "networks of linear and convolutional layers": YES_NO[takes.linear_layers],
        "transformers": YES_NO[takes.transformers],
        "any architecture that falls into levels": YES_NO[takes.any_architecture],
        "importance scores (`importance=`)": YES_NO[takes.importance],
        "a fused network of its own widths (`target=`)": YES_NO[takes.target],
        "fusion data": "decide" if takes.uses_data else "decide nothing",
        "each parent's own data": "for scores" if takes.importance else YES_NO[takes.parents_data],
        "goes level by level (errors, analysis)": YES_NO[takes.levels],
        "its result": "all parents side by side" if takes.keeps_parents else "one network",
    }


def _values() -> str:
    """The tables of parts: groupings, fits and importance scores."""
    parts = [
        "# Groupings, fits and importance scores",
        "The parts of a retrofit: frozen values whose fields are their options. In Python they are objects "
        '(`grouping=KMeans(restarts=20)`) or words (`grouping="kmeans", restarts=20`), on the command line words '
        "(`--grouping kmeans --restarts 20`). Your own: [score, grouping, data](../your_own.md).",
    ]
    tables: dict[str, Mapping[str, Any]] = {"Groupings": GROUPINGS, "Fits": FITS, "Importance scores": IMPORTANCE}
    for title, table in tables.items():
        parts.append(f"## {title}")
        for name, value in table.items():
            settings = {key: entry for key, entry in settings_of(value).items() if entry.is_plain}
            parts += [f"### {value.__name__}", f"`{name}`. {_described(value)}", option_grid(settings)]
    return "\n\n".join(parts)
