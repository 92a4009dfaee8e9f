"""paper.csv beside the paper's source, cell by cell, and by itself."""

import re
from collections import Counter

import pytest

from retrofit_core.experiments.paper import FIGURES, claimed_capabilities, paper_values
from retrofit_core.methods import METHODS
from tests.experiments.tex_tables import GAIN, caption, environment, header_and_body, named_rows, plain
from tests.marks import each_case

#: Labels of tables and figures that print no result.
NOT_RESULTS = {
    "fig:algo": "a drawing",
    "tab:comparison": "ticks, in comparison.csv",
    "tab:traininghyperparams": "settings, checked in test_paper_settings.py",
    "tab:appendix-hp": "settings, checked in test_paper_settings.py",
    **dict.fromkeys(FIGURES.values(), "a picture without printed numbers; what is measured of it is in tables.py"),
}
#: Tables by name, and the labels of each: the full table, then its short form.
TABLES = {
    "vgg11-noniid": ["tab:vgg11-noniid-cifar10-acc"],
    "vgg11-sharded": ["tab:vgg11-sharded-cifar10-acc"],
    "vgg11-full": ["tab:vgg-iid-full-table"],
    "widths": ["tab:fusion_diff_size"],
    "fusion-set-size": ["tab:varying-fusion-ds"],
    "bloodmnist": ["tab:bloodMNIST"],
    "vit-sharded-cifar100": ["tab:vit-sharded-cifar100-full-acc", "tab:vit-sharded-cifar100-acc"],
    "vit-full-cifar100": ["tab:vit-iid-ft-full-table", "tab:vit-iid-ft-cifar100-acc"],
    "vit-sharded-tiny-imagenet": ["tab:vit-sharded-ti-2way-acc"],
    "vit-full-tiny-imagenet": ["tab:vit-ti-iid-ft-full-table", "tab:vit-iid-ft-ti-acc"],
    "inference-cost": ["tab:vit-iid-ft-cifar100-acc", "tab:vit-iid-ft-ti-acc"],
    "resnet50-imagenet": ["tab:zipit_comparison"],
    "resnet-compression": ["tab:resnet-comp"],
    "runtime-vgg": ["tab:vgg_runtime"],
    "runtime-vit": ["tab:vit_runtime"],
    "runtime-end-to-end": ["tab:runtime_breakdown"],
    "neuron-importance": ["fig:vgg-ni"],
}
#: Rows that are no method and no parent.
OTHER_ROWS = {
    "theoretical 0-time fusion",
    "ours, no fine-tuning",
    "ours, with fine-tuning",
    "adjusted Rand index to uniform",
}
NO_PERCENTS = ("runtime-vgg", "runtime-vit", "runtime-end-to-end")
#: Methods down, splits across.
BY_METHOD = {
    "tab:vgg11-noniid-cifar10-acc": ["2-way", "4-way", "8-way"],
    "tab:vgg11-sharded-cifar10-acc": ["2-way", "4-way", "6-way"],
    "tab:vgg-iid-full-table": ["2-way zero-shot", "2-way fine-tuned"],
    "tab:bloodMNIST": ["2-way"],
    "tab:vit-sharded-cifar100-full-acc": ["2-way", "4-way", "6-way"],
    "tab:vit-sharded-cifar100-acc": ["2-way", "4-way", "6-way"],
    "tab:vit-iid-ft-full-table": ["2-way zero-shot", "2-way fine-tuned", "4-way zero-shot", "4-way fine-tuned"],
    "tab:vit-sharded-ti-2way-acc": ["2-way"],
    "tab:vit-ti-iid-ft-full-table": ["2-way zero-shot", "2-way fine-tuned"],
    "tab:zipit_comparison": ["joint", "task A", "task B"],
}
THREE = ["uniform", "conductance", "deeplift"]
#: Methods across: the number of columns that name the row, and our rows by column. What the row is called is our column.
BY_CASE = {
    "tab:fusion_diff_size": (
        2,
        [
            "Parent 0",
            "Parent 1",
            *(f"KF-{fit}, {score}" for fit in ("Linear", "Gradient") for score in THREE),
            "OTFusion",
            "KD",
        ],
    ),
    "tab:varying-fusion-ds": (1, [f"KF-Gradient, {score}" for score in THREE]),
    "tab:resnet-comp": (1, ["Parent 0", *(f"KF-Gradient, {score}" for score in THREE), "KD"]),
    "tab:vit_runtime": (1, ["KF-Gradient, uniform"]),
}
CASES = {
    "5K": "5k samples",
    "1K": "1k samples",
    "1K + Augmentations": "1k samples, augmented",
    r"ResNet 34 \to 18": "ResNet-34 to ResNet-18",
    r"ResNet 50 \to 18": "ResNet-50 to ResNet-18",
    "400": "400 samples",
    "6000": "6000 samples",
}
#: The columns of the short tables of the full-data setting behind the name; one is empty.
SHORT = {
    "Parent": "zero-shot",
    "Ensemble": "zero-shot",
    "Transformer-OTFusion-Weights, best": "zero-shot",
    "KF-Gradient, best": "zero-shot",
    "": "",
    "Transformer-OTFusion-Weights, best ": "fine-tuned",
    "KF-Gradient, best ": "fine-tuned",
}
SHORT_LABELS = ["tab:vit-iid-ft-cifar100-acc", "tab:vit-iid-ft-ti-acc"]
#: In this order: a name that begins another comes after it.
PRINTED = {
    r"Transf(?:ormer|\.) OTF(?:usion)? acts": "Transformer-OTFusion",
    r"Transf(?:ormer|\.) OTF(?:usion)? wts": "Transformer-OTFusion-Weights",
    r"OT ?F(?:usion)?": "OTFusion",
    r"Git Re-Basin": "Git-Re-Basin",
    r"Zip-?It!(?: \(25k samples\))?": "ZipIt",
    r"Vanilla Averaging": "Average",
    r"(Ensemble|KD|LP|[HK]F-Linear|[HK]F-Gradient)": r"\1",
}

#: Titles of the comparison's columns as printed, in small letters, and ours.
CAPABILITIES = {
    "linear layers": "linear layers",
    "trans- formers": "transformers",
    "any modularizable architecture": "any modularizable architecture",
    "> 2 models": "more than two models",
    "different widths": "different widths",
    "different depths": "different depths",
    "benefits from imp. scores": "benefits from importance scores",
    "high zero- shot acc.": "high zero-shot accuracy",
}

Cell = tuple[str, str, float, float | None]


def typed(label: str) -> list[Cell]:
    """The lines of paper.csv with a label, inference costs apart."""
    values = [value for value in paper_values() if value.label == label and value.table != "inference-cost"]
    return [(value.column, value.row, value.mean, value.deviation) for value in values]


def our_row(printed: str, label: str) -> str:
    """The row of paper.csv for a name as the paper prints it; "" for a cell with all individual models."""
    if re.fullmatch(r"Individual Models", printed):
        return ""
    if model := re.fullmatch(r"(?:Individual )?Model ([01AB])", printed):
        return f"Parent {'AB'.find(model[1]) if model[1] in 'AB' else model[1]}"
    for pattern, name in PRINTED.items():
        if match := re.fullmatch(rf"{pattern}(?: (Uniform|Conductance|DeepLIFT))?(?: \(\d+k samples ?\))?", printed):
            score = match.groups()[-1]
            method = match.expand(name)
            takes_scores = method not in ("Ensemble", "Average", "KD", "LP", "ZipIt")
            best = ", best" if label in ("tab:bloodMNIST", "tab:vit-sharded-cifar100-acc") and takes_scores else ""
            uniform = ", uniform" if label == "tab:zipit_comparison" and method == "KF-Gradient" else ""
            return f"{method}, {score.lower()}" if score else method + best + uniform
    raise LookupError(printed)


def printed_by_method(tex: str, label: str) -> list[Cell]:
    cells = []
    for name, row in named_rows(tex, label):
        assert len(row) == len(BY_METHOD[label])
        samples = re.search(r"\d+k samples", name)
        for column, found in zip(BY_METHOD[label], row, strict=True):
            column = f"{column}, {samples[0]}" if samples else column
            ours = our_row(name, label)
            assert len(found) < 2 or not ours
            cells += [(column, ours or f"Parent {index}", *number) for index, number in enumerate(found)]
    return cells


@each_case("label", BY_METHOD)
def test_tables_with_methods_down(tex, label):
    header, _ = header_and_body(environment(tex, label))
    titles = [re.sub(r" ?split|\\toprule|\\", "", plain(cell)).strip().lower() for cell in header.split("&")[1:]]
    titles = [title.replace("finetuned", "fine-tuned") for title in titles]
    assert titles == [
        column.lower().removeprefix("2-way " if label == "tab:vgg-iid-full-table" else "")
        for column in BY_METHOD[label]
    ]
    assert typed(label) == printed_by_method(tex, label)


@pytest.mark.parametrize("label", BY_CASE)
def test_tables_with_methods_across(tex, label):
    names, rows = BY_CASE[label]
    cells = [
        (CASES.get(case, case), row, *number)
        for case, found in named_rows(tex, label, names)
        for row, numbers in zip(rows, found, strict=True)
        for number in numbers
    ]
    if label == "tab:varying-fusion-ds":
        base = re.search(r"Base accuracies are ([\d.]+) and ([\d.]+)\.", caption(environment(tex, label)))
        assert base
        cells = [
            ("all sizes", f"Parent {index}", float(mean), None) for index, mean in enumerate(base.groups())
        ] + cells
    assert typed(label) == cells


@pytest.mark.parametrize("label", SHORT_LABELS)
def test_short_tables_of_the_full_data_setting(tex, label):
    cells, costs, way = [], [], ""
    for name, found in named_rows(tex, label):
        if name == "Inference Cost:":
            for (row, stage), numbers in zip(SHORT.items(), found, strict=True):
                costs += [(f"{way} {stage}", row.strip().replace("Parent", "Parent 0"), *number) for number in numbers]
            continue
        way = name.removesuffix(" fusion:") or "2-way"
        for (row, stage), numbers in zip(SHORT.items(), found, strict=True):
            names = (
                [f"Parent {index}" for index in range(len(numbers))]
                if row == "Parent"
                else [row.strip()] * len(numbers)
            )
            cells += [(f"{way} {stage}", title, *number) for title, number in zip(names, numbers, strict=True)]
    assert typed(label) == cells
    values = [value for value in paper_values("inference-cost") if value.label == label]
    assert [(value.column, value.row, value.mean, value.deviation) for value in values] == costs


@pytest.mark.parametrize("label", SHORT_LABELS)
def test_printed_gains_are_differences_to_the_best_parent(tex, label):
    """What is not typed in follows from what is."""
    gains = [float(gain) for gain in GAIN.findall(environment(tex, label))]
    best, expected = {}, []
    for column, row, mean, _ in typed(label):
        way = column.split()[0]
        if row.startswith("Parent"):
            best[way] = max(mean, best.get(way, 0))
        else:
            expected.append(mean - best[way])
    assert gains == pytest.approx(expected)


def test_runtimes(tex):
    rows = [(our_row(name.removesuffix(" Uniform"), ""), name) for name, _ in named_rows(tex, "tab:vgg_runtime")]
    titles = [f"{row}, uniform" if name.endswith("Uniform") else row for row, name in rows]
    means = [found[0][0] for _, found in named_rows(tex, "tab:vgg_runtime")]
    assert typed("tab:vgg_runtime") == [("seconds", title, *mean) for title, mean in zip(titles, means, strict=True)]
    titles = ["theoretical 0-time fusion", "ours, no fine-tuning", "ours, with fine-tuning"]
    found = named_rows(tex, "tab:runtime_breakdown")
    assert [name.lower() for name, _ in found] == [
        "theoretical 0-time fusion",
        "ours (no fine-tuning)",
        "ours (with fine-tuning)",
    ]
    assert typed("tab:runtime_breakdown") == [
        (column, title, *number)
        for title, (_, cells) in zip(titles, found, strict=True)
        for column, numbers in zip(("fusion", "fine-tuning", "total"), cells, strict=True)
        for number in numbers
    ]


def test_the_two_rand_indices(tex):
    text = caption(environment(tex, "fig:vgg-ni"))
    printed = re.search(r"produced by Conductance and DeepLIFT are \$([\d.]+)\$ and \$([\d.]+)\$", text)
    assert printed
    row = "adjusted Rand index to uniform"
    assert typed("fig:vgg-ni") == [
        ("conductance", row, float(printed[1]), None),
        ("deeplift", row, float(printed[2]), None),
    ]


def test_seeds_are_those_of_the_captions(tex):
    words = {"single": 1, "five": 5}
    for label in {value.label for value in paper_values()}:
        found = re.findall(r"(\d+|single|five) (?:seeds?|times|runs)\b", caption(environment(tex, label)))
        printed = {words.get(number) or int(number) for number in found} or {None}
        assert {value.seeds for value in paper_values() if value.label == label} == printed, label
    four_way = [
        value for value in paper_values("vit-full-cifar100") if value.column.startswith("4-way") and value.seeds
    ]
    assert {value.seeds for value in four_way} == {1}
    assert all(value.deviation is None for value in four_way)


def test_every_table_and_figure_is_typed_in_or_said_to_hold_no_result(tex):
    labels = set(re.findall(r"\\label\{((?:tab|fig):[^}]+)\}", tex))
    results = {value.label for value in paper_values()}
    assert not results & NOT_RESULTS.keys()
    assert labels == results | NOT_RESULTS.keys()
    for kind, text in re.findall(r"\\begin\{((?:table|figure)\*?)\}(.*?)\\end\{\1\}", tex, re.DOTALL):
        assert re.search(r"\\label\{(?:tab|fig):", text), f"a {kind} without a label"


def test_figures_without_numbers_are_those_of_the_paper(tex):
    """Their captions say what a spec must be of."""
    landscape, histogram = (caption(environment(tex, label)) for label in FIGURES.values())
    assert "KF-Gradient using DeepLIFT" in landscape and "ViT" in landscape and "maximum of 4.6" in landscape
    assert "VGG11" in histogram and "non-IID split (split by two) on CIFAR-100" in histogram
    assert all(not paper_values(name) for name in FIGURES)


def test_claimed_capabilities(tex):
    algorithms = {"Git Re-Basin": "Git-Re-Basin", "ZipIt!": "ZipIt"}
    _, rows = header_and_body(environment(tex, "tab:comparison"))
    claims = claimed_capabilities()
    ticks = {"\\cmark": True, "\\xmark": False}
    assert {name: list(of.values()) for name, of in claims.items()} == {
        algorithms.get(plain(row[0]), plain(row[0])): [ticks[cell] for cell in row[1:]] for row in rows
    }
    header, _ = header_and_body(environment(tex, "tab:comparison"))
    titles = [
        plain(cell).replace("\\makecell", "").replace(r"\\", " ").strip().lower() for cell in header.split("&")[1:]
    ]
    for of in claims.values():
        assert list(of) == [CAPABILITIES[title] for title in titles]


def test_each_table_has_its_labels():
    labels: dict[str, dict[str, None]] = {}
    for value in paper_values():
        labels.setdefault(value.table, {})[value.label] = None
    assert {table: list(of) for table, of in labels.items()} == TABLES


def test_each_cell_is_there_once():
    keys = Counter((value.table, value.label, value.column, value.row) for value in paper_values())
    assert [key for key, count in keys.items() if count > 1] == []


@each_case("table", TABLES)
def test_cells_by_themselves(table):
    for value in paper_values(table):
        method, _, score = value.row.partition(", ")
        if value.row not in OTHER_ROWS and not re.fullmatch(r"Parent [0-7]", value.row):
            assert method in METHODS, value
            assert score in ("", "best", *THREE), value
            assert not score or METHODS[method].takes.importance, value
        assert value.deviation is None or value.deviation >= 0, value
        assert value.seeds is None or value.seeds > 0, value
        assert value.mean >= 0, value
        assert value.mean <= 100 or table in NO_PERCENTS, value


def test_the_best_scores_of_short_tables_are_those_of_the_full_ones():
    """A long table says which scores were best."""
    for short in paper_values():
        method, _, score = short.row.partition(", ")
        if score != "best" or short.table in ("bloodmnist", "inference-cost"):
            continue
        full = [
            value for value in paper_values(short.table) if value.column == short.column and value.label != short.label
        ]
        scored = [value for value in full if value.row.startswith(f"{method}, ")]
        assert len(scored) == 3
        assert short.mean == max(value.mean for value in scored), short


def test_a_table_is_read_by_its_name():
    assert {value.table for value in paper_values("Resnet_Compression")} == {"resnet-compression"}
    with pytest.raises(
        ValueError, match="unknown table of the paper 'vgg11-iid'. Known: vgg11-noniid, .*Did you mean 'vgg11-noniid'"
    ):
        paper_values("vgg11-iid")


def test_claims_name_methods():
    claims = claimed_capabilities()
    assert all(any(name.startswith(algorithm) for name in METHODS) for algorithm in claims)
    assert {len(of) for of in claims.values()} == {8}
