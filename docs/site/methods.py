"""A page for each method and for the values behind them, from the tables of the code and the records of benchmarks/results."""

import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from retrofit_core.catalogue import CATALOGUE
from retrofit_core.experiments.bundles import Bundle, results_in
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.fusion.task import Takes
from retrofit_core.method import Method
from retrofit_core.methods import BEYOND, CONTROLS, METHODS, RETROFITTING
from retrofit_core.system.settings import Setting, Value, settings_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NOTHING = "-"
#: How the names of the VGG pair's checkpoints begin.
PAIR = "cifar10-vgg11-noniid2"


def navigation() -> list[Any]:
    """The entries of the tab: the overview, one page a method, and what they are made of."""
    return [
        "methods/index.md",
        {"All formulas": "formulas.md"},
        *({name: _path(name)} for name in CATALOGUE),
        {"Groupings, fits, scores": "methods/values.md"},
    ]


def pages() -> dict[str, str]:
    """Path -> Markdown.

    Raises:
        ValueError: a method without a formula, or a formula without a method.
    """
    formulas = _formulas()
    if odd := METHODS.keys() ^ formulas.keys():
        raise ValueError(f"docs/formulas.md and the table of methods differ in {sorted(odd)}.")
    made = {_path(name): _page(method, formulas[name]) for name, method in METHODS.items()}
    return {**made, "methods/index.md": _overview(), "methods/values.md": _values()}


def _path(name: str) -> str:
    return f"methods/{name.lower()}.md"


def _overview() -> str:
    kinds = {
        "Retrofitting": RETROFITTING,
        "Beyond it, ours": BEYOND,
        "Controls of it": CONTROLS,
        "What it is compared with": [name for name in METHODS if name not in (*RETROFITTING, *BEYOND, *CONTROLS)],
    }
    record = _record("methods")
    measured = _measured(record)
    reference = ", ".join(f"{name} {value:.2f}" for name, value in record["reference"].items())
    lines = [
        "# The methods",
        "",
        "All stand behind one contract: the same inputs, the same result, the same refusals. `METHODS[NAME](parents, data)` in "
        "Python, `--method NAME` on the command line, *Method* in the workbench.",
        "",
        f"The last column is the accuracy in per cent on {record['pair']} ({record['samples']} samples, one fusion seed, "
        f"{record['test images']:,} test images; {reference}): the best of what [the records](../measured.md) have with uniform "
        "scores, with conductance, and with REPAIR.",
    ]
    for title, names in kinds.items():
        lines += ["", f"## {title}", "", "| method | what it does | source | measured |", "| --- | --- | --- | --- |"]
        for name in names:
            accuracies = [row["accuracy"] for row in measured.get(name, {}).values()]
            best = max(accuracies or _in_experiments(name).values(), default=None)
            number = NOTHING if best is None else f"{best:.2f}"
            line = CATALOGUE[name]
            lines.append(f"| [{name}]({name.lower()}.md) | {line.sentence} | {line.source or NOTHING} | {number} |")
    return "\n".join(lines)


def _page(method: Method, formula: str) -> str:
    parts = [table[method.fixed[part]] for part, table in method.parts.items() if part in method.fixed]
    named = "".join(
        f" {part.capitalize()}: [`{method.fixed[part]}`](values.md#{value.__name__.lower()})."
        for part, value in zip(method.parts, parts, strict=False)
    )
    source = method.source or "none named"
    lines = [
        f"# {method.name}",
        "",
        f"{method.sentence}{named}",
        "",
        f"**Source:** {source.rstrip('.')}. [Paper, public code and its licence](../licences.md#methods).",
        "",
        "## Formula",
        "",
        formula,
        "",
        "## What exactly it does",
        "",
        "\n\n".join(map(_described, (method.value, *parts))),
        "",
        "## On the VGG pair",
        "",
        *_numbers(method),
        "",
        "## What it takes",
        "",
        "| what | taken |",
        "| --- | --- |",
        *(f"| {name} | {said} |" for name, said in _taken(method.takes).items()),
        "",
        "## Options",
        "",
        *_options(method),
        "",
        "## How it is called",
        "",
        *_called(method),
    ]
    return "\n".join(lines)


def _formulas() -> dict[str, str]:
    """Method -> its section of docs/formulas.md."""
    sections = (ROOT / "docs" / "formulas.md").read_text().split("\n## ")[1:]
    return {name: text.strip() for name, _, text in (section.partition("\n") for section in sections)}


def _described(value: type[Any]) -> str:
    """A docstring as Markdown: nothing in it is markup but its code, and pages that it names are links."""
    parts = re.split(r"(`[^`]+`)", inspect.getdoc(value) or "")
    parts[::2] = [re.sub(r"([*_])", r"\\\1", text).replace("<", "&lt;") for text in parts[::2]]
    return re.sub(r"docs/(\w+)\.md", r"[\1](../\1.md)", "".join(parts))


def _numbers(method: Method) -> list[str]:
    """What the records say of a method on the VGG pair."""
    record = _record("methods")
    rows = _measured(record).get(method.name, {})
    machine, paper = record["machine"], record["paper"]
    if not rows:
        reason = next((row.get("reason") for row in record["uniform"]["rows"] if row["method"] == method.name), None)
        if method.takes.base:
            reason = reason or "these parents have no common ancestor"
        if accuracies := _in_experiments(method.name):
            return _from_experiments(accuracies)
        return [f"Not measured on this pair{f': {reason}' if reason else ''}."]
    if not method.takes.importance:
        rows = {{"uniform": "alone"}.get(title, title): row for title, row in rows.items()}
    head, below = (
        ["", *rows],
        {
            "accuracy": [f"{row['accuracy']:.2f}" for row in rows.values()],
            "least variance that a layer keeps": [
                f"{min(row['variance'].values()):.1%}" if row.get("variance") else NOTHING for row in rows.values()
            ],
            "seconds": [f"{row['seconds']:.1f}" for row in rows.values()],
        },
    )
    reference = ", ".join(f"{name} {value:.2f}" for name, value in record["reference"].items())
    lines = [
        f"{record['pair']}, {record['samples']} samples, one fusion seed, {record['test images']:,} test images: {reference}. "
        f"Measured on {machine['processor']}, {machine['threads']} threads, {machine['date']}.",
        "",
        f"| {' | '.join(head)} |",
        "| --- |" + " --- |" * len(rows),
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in below.items()),
    ]
    if seconds := paper["seconds"].get(method.name):
        lines += ["", f"The paper's time on its own pair: {seconds} s ({paper['machine']})."]
    if seeds := _over_seeds(method.name):
        lines += ["", *seeds]
    return [
        *lines,
        "",
        "What the numbers mean: [Baselines on real checkpoints](../baselines.md). All records: [Measured](../measured.md).",
    ]


def _in_experiments(name: str) -> dict[str, float]:
    """Importance -> accuracy of a method with default options on the same pair, from our own tables of the experiments."""
    bundle = _experiments()
    pair = next(each for each in bundle.given if each.names[0].startswith(PAIR))
    accuracies: dict[str, float] = {}
    for result in bundle.results.values():
        fusion = dict(result.unit.get("fusion") or {})
        importance = fusion.pop("importance", "uniform")
        if fusion == {"method": name} and result.unit.get("given") == pair.facts["given"]:
            accuracies[importance] = result.metrics["accuracy"]
    return accuracies


@cache
def _experiments() -> Bundle:
    return results_in(RESULTS / "experiments")


def _from_experiments(accuracies: Mapping[str, float]) -> list[str]:
    return [
        f"Accuracy on {_record('methods')['pair']}, one fusion seed, from the studies of the method's "
        "[parts](../notebooks/90_ablation.md) and of [what goes beyond it](../notebooks/91_beyond.md):",
        "",
        f"| {' | '.join(accuracies)} |",
        "|" + " --- |" * len(accuracies),
        f"| {' | '.join(f'{accuracy:.2f}' for accuracy in accuracies.values())} |",
    ]


def _measured(record: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Method -> how its neurons were weighed -> the row of the record."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for part, title in (("uniform", "uniform"), ("conductance", "conductance"), ("repair", "with REPAIR")):
        for row in record[part]["rows"]:
            if "accuracy" in row:
                rows.setdefault(row["method"], {})[title] = row
    return rows


def _over_seeds(name: str) -> list[str]:
    """Mean and deviation over fusion seeds, for the methods that have them."""
    rows, seeds = {}, 0
    for fit in ("linear", "gradient"):
        record = _record(f"accuracy-{PAIR}-{fit}")
        found = [row for row in record["rows"] if row["method"] == name and row["ridge"] in ("toward zero, auto", "")]
        rows |= {row["importance"]: f"{row['mean']:.2f} ± {row['deviation']:.2f}" for row in found}
        seeds = len(record["seeds"])
    if not rows:
        return []
    return [
        f"Over {seeds} fusion seeds, mean ± deviation of the accuracy:",
        "",
        f"| {' | '.join(rows)} |",
        "|" + " --- |" * len(rows),
        f"| {' | '.join(rows.values())} |",
    ]


def _taken(takes: Takes) -> dict[str, str]:
    least, most = takes.parents
    yes_no = {True: "yes", False: "no"}
    facts = {
        "parents": str(least)
        if least == most
        else f"any number from {least}"
        if most is None
        else f"{least} to {most}",
        "widths": "equal" if takes.equal_widths else "any",
        "parents deeper than the fused network": yes_no[takes.other_depths],
        "networks of linear and convolutional layers": yes_no[takes.linear_layers],
        "transformers": yes_no[takes.transformers],
        "any architecture that falls into levels": yes_no[takes.any_architecture],
        "importance scores (`importance=`)": yes_no[takes.importance],
        "a fused network of its own widths (`target=`)": yes_no[takes.target],
        "the parents' common ancestor (`base=`)": "needed" if takes.base else "no",
        "fusion data": "decide" if takes.uses_data else "decide nothing",
        "each parent's own data": yes_no[takes.parents_data] if not takes.importance else "for scores",
        "class shares (`class_shares=`)": yes_no[takes.class_shares],
        "sample counts (`sample_counts=`)": yes_no[takes.sample_counts],
        "goes level by level (errors, journal, analysis)": yes_no[takes.levels],
    }
    return facts | (
        {"its result": "all parents side by side"} if takes.keeps_parents else {"its result": "one network"}
    )


def _options(method: Method) -> list[str]:
    settings = method.settings({"importance": "uniform"})
    lines = options_table(settings) if settings else ["None of its own."]
    if method.takes.importance:
        lines += ["", "Scores have [options of their own](values.md#importance-scores)."]
    return [*lines, "", "Every method also takes `samples`, `seed`, `logits`, `device`, `monitor` and `journal`."]


def options_table(settings: Mapping[str, Setting]) -> list[str]:
    """Lines of a table: each option with its default, what it takes, and what it is."""
    rows = [
        f"| `{name}` | `{_plain(entry.default)}` | {_cell(entry.description)} | {_cell(entry.help)} |"
        for name, entry in settings.items()
    ]
    return ["| option | default | takes | what it is |", "| --- | --- | --- | --- |", *rows]


def _plain(value: Any) -> str:
    return (
        "none"
        if value is None
        else "true"
        if value is True
        else "false"
        if value is False
        else "()"
        if value == ()
        else str(value)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _called(method: Method) -> list[str]:
    name, needs_base = method.name.lower(), method.takes.base
    words = f"--method {name}{' --base ancestor.safetensors' if needs_base else ''} --splits splits.json"
    return [
        "```text",
        f'METHODS["{method.name}"](parents, data{", base=ancestor" if needs_base else ""}).model',
        f"retrofit fuse a.safetensors b.safetensors {words} --out fused.safetensors",
        "```",
        "",
        f'`help(METHODS["{method.name}"])` and `retrofit methods {name}` show the same options.',
    ]


def _values() -> str:
    """The tables of parts: groupings, fits and importance scores."""
    tables: dict[str, Mapping[str, type[Value]]] = {
        "Groupings": GROUPINGS,
        "Fits": FITS,
        "Importance scores": IMPORTANCE,
    }
    lines = [
        "# Groupings, fits and importance scores",
        "",
        "The parts of a retrofit: frozen values whose fields are their options. In Python they are objects "
        '(`grouping=KMeans(restarts=20)`) or words (`grouping="kmeans", restarts=20`), on the command line words '
        "(`--grouping kmeans --option restarts=20`). Your own: [score, grouping, data](../your_own.md).",
    ]
    for title, table in tables.items():
        lines += ["", f"## {title}"]
        for name, value in table.items():
            lines += ["", f"### {value.__name__}", "", f"`{name}`. {_described(value)}", ""]
            settings = {key: entry for key, entry in settings_of(value).items() if entry.is_plain}
            lines += options_table(settings) if settings else ["No options."]
    return "\n".join(lines)


@cache
def _record(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())
