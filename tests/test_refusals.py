"""What the code says to people names only what exists: options, commands, keywords and their words, methods, functions, files."""

import ast
import builtins
import dataclasses
import functools
import importlib
import inspect
import re
from pathlib import Path

import pandas
import pytest
import torch
import typer
from torch import nn

import retrofit_core
from retrofit_core import METHODS
from retrofit_core.cli import app
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import all_settings
from retrofit_core.networks.levels.cuts import BOUNDARIES
from retrofit_core.system.settings import Value, settings_of
from retrofit_core.system.texts import flag as flag_of
from tests.marks import each_case

ROOT = Path(__file__).parent.parent
FILES = sorted(path for folder in ("retrofit_core", "app/retrofit_app") for path in (ROOT / folder).rglob("*.py"))

# --- what is said ----------------------------------------------------------------------------------------------------


def texts(source):
    """(line, text) of every text in a module but bare strings, as docstrings are; what is filled in is {}.

    Not only of `raise ValueError`: helpers put messages together, and what they say must be true as well.
    """
    tree = ast.parse(source)
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in list(ast.walk(node))[1:]
    }
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | bare:
            yield node.lineno, node.value


def is_markup(text):
    """HTML, style sheets and scripts, which nobody reads as a sentence."""
    return (
        bool(re.search(r"</?[a-z]\w*[ >]|var\(--|=>|^--st-|viewBox|\w='?\{\}'?[ ;]\w+=", text))
        or " " not in text.strip()
    )


# --- what there is ---------------------------------------------------------------------------------------------------


def values(base=Value):
    """Every class of values of the core."""
    return {
        cls for child in base.__subclasses__() for cls in (child, *values(child)) if "retrofit_core" in cls.__module__
    }


@functools.cache
def defined():
    """Function, method or class of the core -> the names of its parameters, ** for any; of a class, of its fields."""
    found = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = [entry.arg for entry in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                found[node.name] = found.get(node.name, set()) | {*names, *(["**"] if node.args.kwarg else [])}
            elif isinstance(node, ast.ClassDef):
                fields = {
                    e.target.id for e in node.body if isinstance(e, ast.AnnAssign) and isinstance(e.target, ast.Name)
                }
                found[node.name] = found.get(node.name, set()) | fields
    return found


COMMANDS = typer.main.get_command(app).commands
OPTIONS = {
    name: {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} for name, command in COMMANDS.items()
}
for _name in ("fuse", "compare"):
    OPTIONS[_name] |= {flag_of(setting) for setting in all_settings()}
PARTS = {"fit": FITS, "grouping": GROUPINGS, "importance": IMPORTANCE, "boundaries": (*BOUNDARIES, "auto")}
PUBLIC = [getattr(retrofit_core, name) for name in retrofit_core.__all__ if callable(getattr(retrofit_core, name))]
#: Keywords of public functions and methods, and those of torch's layers that messages speak of.
PARAMETERS = {
    name
    for function in (*PUBLIC, *METHODS.values(), nn.BatchNorm2d, nn.Linear, torch.load, dataclasses.dataclass)
    for name in inspect.signature(function).parameters
}
#: Options of other programs, entries of `--augmentation`, and words that look like a method's name and are none.
ELSEWHERE = {
    "--nthreads",
    "--help",
    "keyword",
    "crop",
    "policy",
    "Ctrl-C",
    "Non-IID",
    "Tiny-ImageNet",
    "NO-BREAK",
    "Re-Basin",
}


def words_of(keyword, module):
    """The words that a keyword takes in messages of a module; {None} where it takes any, an empty set where there is none.

    A method's own file speaks of that method: `fit` is LP's there, and no setting of another one can be chosen.
    """
    own = [method for method in METHODS.values() if method.value.__module__ == module and "baselines" in module]
    classes = {method.value for method in own} or values()
    settings = [settings_of(cls)[keyword] for cls in classes if keyword in settings_of(cls)]
    found = {word for entry in settings for word in entry.words}
    found |= {None for entry in settings if (str in entry.kinds or not entry.is_plain) and keyword not in PARTS}
    if not own or any(keyword in method.keywords() for method in own):
        found |= set(PARTS.get(keyword, ())) if not any(entry.words for entry in settings) else set()
    parameters = {name for method in own for name in method.keywords()} if own else PARAMETERS
    return found or ({None} if settings or keyword in parameters else set())


# --- what is wrong ---------------------------------------------------------------------------------------------------


def resolves(name):
    """Whether a dotted name can be imported, or is an attribute of what can be."""
    parts = {"nn": "torch.nn"}.get(name.split(".")[0], name.split(".")[0]).split(".") + name.split(".")[1:]
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def wrong_names(text, module=""):
    """What a text names that does not exist, each with a word of what it would be."""
    text = text.replace("{{", "{")
    for name in re.findall(r"\b(?:retrofit_core|retrofit_app|torch|nn)(?:\.[A-Za-z_]\w*)+", text):
        if not resolves(name):
            yield f"name {name}"
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
        if not any(flag in flags for flags in OPTIONS.values()) and flag not in ELSEWHERE:
            yield f"option {flag}"
    for command, rest in re.findall(r"\bretrofit ([a-z][a-z-]*)([^`]*)", text):
        if command not in COMMANDS:
            yield f"command {command}"
        else:
            flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.split(r"[.;,:] |\n", rest)[0])
            yield from (f"option {flag} of {command}" for flag in flags if flag not in OPTIONS[command])
    for called, inside in re.findall(r"(?<![\w.])([A-Za-z_][\w.]*)\(([^()]*)", text):
        name = called.split(".")[-1]
        if name in defined() and not called.startswith("torch."):
            keywords = [] if "**" in defined()[name] else re.findall(r"\b(\w+)=", inside)
            yield from (f"keyword {word} of {called}()" for word in keywords if word not in defined()[name])
            text = text.replace(f"{called}({inside}", called)
        elif called.startswith("torch.") and resolves(called):  # whose keywords are torch's
            text = text.replace(f"{called}({inside}", called)
        elif not inside or "=" in inside or "." in called:
            homes = (torch.Tensor, nn.Module, builtins, dataclasses, pandas)
            if not resolves(called) and not any(hasattr(home, name) for home in homes):
                yield f"function {called}()"
    for keyword, word in re.findall(r"(?<![\w.{}-])([a-z]\w*)=(?:['\"]([\w-]+)['\"]|(?=[\w\[.]))", text):
        words = words_of(keyword, module)
        if keyword not in ELSEWHERE and not words:
            yield f"keyword {keyword}"
        elif word and None not in words and keyword not in ELSEWHERE and word not in words:
            yield f"word {keyword}={word!r}"
    advised = re.findall(r"\b[Uu]se ([A-Z][\w-]*(?:(?:, or |, | or )[A-Z][\w-]*)*)", text)
    names = [name for clause in advised for name in re.split(r", or |, | or ", clause)]
    names += re.findall(r"(?<![\w-])[A-Z]\w*(?:-[A-Z]\w*)+(?![\w-])", text)
    known = {
        *METHODS,
        *ELSEWHERE,
        *(cls.__name__ for cls in values()),
        *(re.sub(r"\dd$", "", name) for name in dir(nn)),
    }
    yield from (f"method {name}" for name in dict.fromkeys(names) if name not in known)
    for path in re.findall(r"\b(?:docs|notebooks|benchmarks|retrofit_core)/[\w/.-]*\w", text):
        if not (ROOT / path).exists():
            yield f"file {path}"


@pytest.mark.slow
def test_messages_name_what_exists():
    wrong = []
    for path in FILES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for line, text in texts(path.read_text()):
            found = [] if is_markup(text) else wrong_names(text, module)
            wrong += [f"{path.relative_to(ROOT)}:{line}: no {name}: {text}" for name in found]
    assert not wrong, "\n".join(wrong)


@each_case(
    ("text", "wrong"),
    [
        ("make Images with retrofit_core.data.held.", "name retrofit_core.data.held"),
        ("Use torch.nn.Modules.", "name torch.nn.Modules"),
        ("the file is big. Give --sizes.", "option --sizes"),
        ("Give it anew: retrofit refuse --out x", "command refuse"),
        ("Start it again with `retrofit fuse --epochs-of-old 3`.", "option --epochs-of-old of fuse"),
        ("Use fit='gradients'.", "word fit='gradients'"),
        ("Use grouping='k-means' there.", "word grouping='k-means'"),
        ("Use head='share'.", "word head='share'"),
        ("Cut elsewhere (boundaries='everywhere').", "word boundaries='everywhere'"),
        ("Pass leafs=[...] there.", "keyword leafs"),
        ("it was fused before (Ridge(strengths=3)).", "keyword strengths of Ridge()"),
        ("Read it with read_model(). ", "function read_model()"),
        ("Convert it with model.to_float() first.", "function model.to_float()"),
        ("Use KF-Gradients, which takes any.", "method KF-Gradients"),
        ("Use OTFusion, ZipItUp or PLeaS.", "method ZipItUp"),
        ("see docs/no-such-page.md for more", "file docs/no-such-page.md"),
    ],
)
def test_a_name_that_does_not_exist_is_found(text, wrong):
    assert wrong in list(wrong_names(text))


def test_a_setting_of_another_method_is_found():
    """LP has a `fit` of its own, and no steps of a path."""
    module = "retrofit_core.baselines.linear_probe"
    assert list(wrong_names("use fit='kmeans' or steps=3.", module)) == ["word fit='kmeans'", "keyword steps"]
    assert not list(wrong_names("use fit='gradient' there.", module))


def test_the_walk_sees_every_refusal():
    """The texts of all `raise ValueError`, whole or put together by a helper, are among those that are read."""
    refusal = "def f(x):\n    \"\"\"Bare.\"\"\"\n    raise ValueError(f'{x} is bad. ' 'Use ' + why(f'KF-{x}', 'no'))\n"
    assert [text for _, text in texts(refusal)] == ["{} is bad. Use ", "KF-{}", "no"]
    assert sum(path.read_text().count("raise ValueError") for path in FILES) > 500
