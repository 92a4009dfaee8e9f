"""The API reference: which names stand on which page; their docstrings are read by mkdocstrings."""

from importlib import import_module
from inspect import isclass
from typing import Any

from methods import options_table

from retrofit_core.system.settings import Value, settings_of

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
            "fusion.results.LevelReport",
            "runs.comparing.compare",
            "train",
            "finetune",
            "evaluate",
            "ensemble",
            "load_model",
            "save_model",
            "networks.levels.partition.partition",
            "importance_scores",
            "giving_logits",
            "Moments",
        ),
    ),
    "values": (
        "Values: grouping, fit, importance",
        "Frozen objects whose fields are the options; [each option with its default and range](../methods/values.md).",
        (
            "fusion.grouping.Hungarian",
            "fusion.grouping.KMeans",
            "fusion.grouping.LocalSearch",
            "fusion.grouping.SameIndex",
            "fusion.grouping.Random",
            "fusion.grouping.Grouper",
            "fusion.grouping.Grouping",
            "fusion.fit.Ridge",
            "fusion.fit.Gradient",
            "fusion.fit.Fit",
            "fusion.importance.Uniform",
            "fusion.importance.Conductance",
            "fusion.importance.DeepLift",
            "fusion.importance.Custom",
            "fusion.importance.Importance",
            "system.settings.Value",
            "system.settings.setting",
            "system.settings.Range",
            "system.settings.Setting",
            "system.settings.settings_of",
        ),
    ),
    "tasks": (
        "Tasks, plans, runtime",
        "What is to be fused, what a method takes, and where it runs.",
        (
            "fusion.task.Task",
            "fusion.task.Takes",
            "fusion.task.Cost",
            "fusion.task.Algorithm",
            "fusion.algorithm.Retrofit",
            "system.runtime.Runtime",
            "system.monitor.Monitor",
        ),
    ),
    "levels": (
        "Levels and moments",
        "Networks cut into levels, and the sums from which affine levels are fitted.",
        (
            "networks.levels.Level",
            "networks.levels.single_level",
            "fusion.moments.MomentSums",
            "fusion.moments.solve.solve",
            "fusion.moments.Solution",
        ),
    ),
    "networks": (
        "Data, networks, checkpoints",
        "What is fused: data sets and splits, architectures, networks of your own, checkpoints.",
        (
            "data.load",
            "data.Images",
            "data.splits",
            "data.sampling",
            "networks.architectures.build",
            "networks.architectures.recognise",
            "networks.checkpoints",
            "networks.outputs",
            "networks.symmetry.neuron_groups",
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
            "runs.comparison.Leaderboard",
            "inspection.landscape.Landscape",
            "inspection.landscape.networks_of",
            "inspection.landscape.Survey",
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
