"""The accuracies in the tour's cheat sheet, from the records: `python -m retrofit_app.learn.measured`."""

import json
from pathlib import Path

RECORDS = Path(__file__).parents[3] / "benchmarks" / "results" / "experiments"
FILE = Path(__file__).with_name("measured.json")
#: The sheet's networks -> table, column and badge of the records: a scale, or given parents.
TABLES = {
    "skewed": ("vgg11-noniid", "2-way", "given VGG11s of full width, 14 epochs"),
    "sharded": ("vgg11-sharded", "2-way", "given VGG11s of half width, 8 epochs"),
    "four": ("vgg11-noniid", "4-way", "evening"),
    "same": ("vgg11-full", "2-way zero-shot", "evening"),
}
#: Names in the sheet -> rows of the tables.
ROWS = {
    "ensemble": "Ensemble",
    "average": "Average",
    "kf uniform": "KF-Linear, uniform",
    "kf": "KF-Linear, conductance",
    "hf": "HF-Linear, conductance",
    "gradient": "KF-Gradient, conductance",
    "activity": "KF-Linear, conductance, by activity",
    "activity repair": "KF-Linear, uniform, by activity, REPAIR",
    "random": "Random-Linear, conductance",
}


def measured(records: Path = RECORDS) -> dict[str, dict[str, float]]:
    """Networks -> name -> accuracy in %, the mean over fusion seeds, rounded to a tenth; `best` is the best parent's.

    Rows missing from the records are left out.
    """
    from retrofit_core.experiments import table as read_table

    sheet = {}
    for networks, (table, column, badge) in TABLES.items():
        ours = read_table(table, columns=[column], results=records, runs="none").column(column).at(badge)
        means = {line.row: line.mean for line in ours.lines if line.mean is not None}
        parents = [mean for row, mean in means.items() if row.startswith("Parent ")]
        accuracies = {name: means[row] for name, row in ROWS.items() if row in means}
        sheet[networks] = {name: round(mean, 1) for name, mean in {"best": max(parents), **accuracies}.items()}
    return sheet


if __name__ == "__main__":
    FILE.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
