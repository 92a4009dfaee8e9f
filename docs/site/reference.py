"""The API reference: which names stand on which page; their docstrings are read by mkdocstrings."""

from importlib import import_module
from inspect import isclass
from typing import Any

from methods import options_table

from retrofit_core.settings import Value, settings_of

#: Classes whose methods others write too: the bases of what can be added.
BASES = ("Grouper", "Fit", "Importance", "Value", "Algorithm")
#: Page -> (title, a sentence, what stands on it).
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "index": (
        "retrofit_core",
        "The public names: `from retrofit_core import fuse, METHODS, ...`.",
        (
            "fuse",
            "methods.METHODS",
            "method.Method",
            "FusionResult",
            "results.LevelReport",
            "comparing.compare",
            "train",
            "finetune",
            "evaluate",
            "ensemble",
            "load_model",
            "save_model",
            "levels.partition.partition",
            "importance_scores",
            "giving_logits",
            "Moments",
        ),
    ),
    "values": (
        "Values: grouping, fit, importance",
        "Frozen objects whose fields are the options; [each option with its default and range](../methods/values.md).",
        (
            "grouping.Hungarian",
            "grouping.KMeans",
            "grouping.LocalSearch",
            "grouping.SameIndex",
            "grouping.Random",
            "grouping.Grouper",
            "grouping.Grouping",
            "fit.Ridge",
            "fit.Gradient",
            "fit.Fit",
            "importance.Uniform",
            "importance.Conductance",
            "importance.DeepLift",
            "importance.Custom",
            "importance.Importance",
            "settings.Value",
            "settings.setting",
            "settings.Range",
            "settings.Setting",
            "settings.settings_of",
        ),
    ),
    "tasks": (
        "Tasks, plans, runtime",
        "What is to be fused, what a method takes, and where it runs.",
        (
            "task.Task",
            "task.Takes",
            "task.Cost",
            "task.Algorithm",
            "fusion.Retrofit",
            "runtime.Runtime",
            "monitor.Monitor",
        ),
    ),
    "levels": (
        "Levels and moments",
        "Networks cut into levels, and the sums from which affine levels are fitted.",
        ("levels.Level", "levels.single_level", "moments.MomentSums", "moments.solve.solve", "moments.Solution"),
    ),
    "networks": (
        "Data, networks, checkpoints",
        "What is fused: data sets and splits, architectures, networks of your own, checkpoints.",
        (
            "data.load",
            "data.Images",
            "data.splits",
            "data.sampling",
            "architectures.build",
            "architectures.recognise",
            "checkpoints",
            "outputs",
            "symmetry.neuron_groups",
        ),
    ),
    "runs": (
        "Runs, comparisons, landscapes",
        "What is kept on disk, leaderboards, and what lies between networks.",
        (
            "runs.RunConfig",
            "runs.execute.execute",
            "runs.read_run",
            "runs.list_runs",
            "runs.Run",
            "comparison.Leaderboard",
            "landscape.Landscape",
            "landscape.networks_of",
            "landscape.Survey",
            "experiments.table",
        ),
    ),
}


def navigation() -> list[Any]:
    """The entries of the tab."""
    return ["api/index.md", *({title: f"api/{name}.md"} for name, (title, _, _) in PAGES.items() if name != "index")]


def pages() -> dict[str, str]:
    """Path -> Markdown that mkdocstrings fills."""
    made = {}
    for name, (title, sentence, objects) in PAGES.items():
        entries = map(_entry, objects)
        made[f"api/{name}.md"] = "\n\n".join([f"# {title}", sentence, *entries, ""])
    return made


def _entry(path: str) -> str:
    """A name for mkdocstrings; a value is its fields, which stand in a table."""
    entry = f"::: retrofit_core.{path}"
    module, _, name = path.rpartition(".")
    named = getattr(import_module(f"retrofit_core.{module}" if module else "retrofit_core"), name)
    if not (isclass(named) and issubclass(named, Value)) or name in BASES:
        return entry
    settings = {field: setting for field, setting in settings_of(named).items() if setting.is_plain}
    table = options_table(settings) if settings else ["No options."]
    return "\n".join([entry, "    options:", "      members: []", "      merge_init_into_class: false", "", *table])
