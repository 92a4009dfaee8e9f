"""Print the records in results/ as the tables of docs/measurements.md: `python benchmarks/tables.py`."""

from typing import Any

from machine import read

ORDER = ("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient")
SCORES = ("uniform", "conductance", "deeplift")
PLAIN = ("toward zero, auto", "")
RIDGES = (*PLAIN, "toward parents, auto")
#: Units of gpu-h100-speed -> the work in words.
ON_A_GPU = {
    "HF-Linear": "HF-Linear, VGG11 pair, 400 samples",
    **{
        name: name for name in ("KF-Linear", "HF-Gradient", "KF-Gradient", "OTFusion", "Git-Re-Basin", "ZipIt", "PLeaS")
    },
    **{name: name for name in ("RegMean", "Average")},
    "KF-Linear, two ViTs": "KF-Linear, two ViTs (7 blocks, 384 wide), 400 samples",
    "KF-Linear, two ResNet-18s": "KF-Linear, two ResNet-18s, 400 samples",
    "landscape": "landscape, 41 x 41 points, 2,000 images",
    "training of vgg11": "an epoch of VGG11, 25,000 images",
}
#: Largest relative difference of weights that rounding explains.
ROUNDING = {"float64": 1e-8, "float32": 1e-2}


def main() -> None:
    for pair in ("cifar10-vgg11-noniid2", "cifar10-vgg11half-sharded2", "mnist-mlp-noniid2"):
        records = [read(f"accuracy-{pair}-{fit}") for fit in ("linear", "gradient")]
        print(accuracy([record for record in records if record]), "\n")
    if record := read("speed"):
        print(speed(record), "\n")
    if record := read("methods"):
        print(methods(record), "\n")
    print(gpu_speed(read("gpu-h100-speed"), read("gpu-h100-speed-now")), "\n")
    print(gpu_equality(read("gpu-h100-equality")))


def accuracy(records: list[dict[str, Any]]) -> str:
    """Test accuracy of one pair: methods down, importance across, mean +- deviation over the fusion seeds."""
    if not records:
        return ""
    cells = {(row["method"], row["importance"], row["ridge"]): row for record in records for row in record["rows"]}
    reference = ", ".join(f"{name} {value:.2f}" for name, value in records[0]["reference"].items())
    lines = [f"**{records[0]['pair']}** ({len(records[0]['seeds'])} fusion seeds; {reference})", ""]
    lines += [f"| method | {' | '.join(SCORES)} |", "| --- |" + " --- |" * len(SCORES)]
    variants = [
        (method, ridge) for method in ORDER for ridge in RIDGES if any(key[::2] == (method, ridge) for key in cells)
    ]
    for method, ridge in variants:
        label = method if ridge in PLAIN else f"{method}, {ridge}"
        rows = [cells.get((method, score, ridge)) for score in SCORES]
        lines.append(f"| {label} | " + " | ".join(map(cell, rows)) + " |")
    return "\n".join(lines)


def cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['mean']:.2f} ± {row['deviation'] or 0:.2f}"


def speed(record: dict[str, Any]) -> str:
    """Seconds, breakdown and floor; k-means; conductance."""
    machines = {part: f"{facts['processor']}, {facts['threads']} threads" for part, facts in record["machines"].items()}

    def elsewhere(part: str) -> str:
        return "" if machines[part] == machines["linear"] else f" ({machines[part]})"

    lines = [
        f"**Time**, VGG11 pair, 400 samples ({machines['linear']})",
        "",
        "| | HF-Linear | KF-Linear |",
        "| --- | --- | --- |",
    ]
    linear = [record["linear"][name] for name in ORDER[:2]]

    def row(label: str, *values: str) -> None:
        lines.append(f"| {label} | " + " | ".join(values) + " |")

    row(
        "seconds, median (least to most)",
        *(f"{x['median seconds']:.1f} ({x['min']:.1f} to {x['max']:.1f})" for x in linear),
    )
    for phase in linear[0]["breakdown"]:
        row(f"of these {phase}", *(f"{x['breakdown'][phase]:.1f}" for x in linear))
    row("floor", *(f"{x['floor, seconds']:.1f}" for x in linear))
    gradient = ", ".join(f"{name} {x['seconds']:.0f} s" for name, x in record["gradient"].items())
    lines += [
        "",
        f"Gradient methods: {gradient}{elsewhere('gradient')}.",
        "",
    ]
    for name, x in record["kmeans"].items():
        lines.append(
            f"- k-means, n = 1024, k = 512, {name}: {x['ours, median seconds']:.2f} s, scikit-learn "
            f"{x['scikit-learn, median seconds']:.2f} s ({x['times faster']:.0f} times), inertia "
            f"of a k-means++ start {x['ours, mean inertia of a k-means++ start']:.5g} against "
            f"{x['scikit-learn, mean inertia of a k-means++ start']:.5g} on average{elsewhere('kmeans')}"
        )
    x = record["conductance"]
    lines.append(
        f"- conductance, all nine levels, {x['samples']} samples: {x['ours, seconds']:.1f} s, Captum level by level "
        f"{x['Captum level by level, seconds']:.1f} s ({x['times faster']:.1f} times), largest relative difference "
        f"{x['largest relative difference']:.1e}{elsewhere('conductance')}"
    )
    return "\n".join(lines)


def methods(record: dict[str, Any]) -> str:
    """Every method on one pair: accuracy, the least variance that a layer keeps, seconds beside the paper's."""
    machine, paper = record["machine"], record["paper"]
    parts = [{row["method"]: row for row in record[part]["rows"]} for part in ("uniform", "conductance", "repair")]
    reference = ", ".join(f"{name} {value:.2f}" for name, value in record["reference"].items())
    lines = [
        f"**Every method**, {record['pair']}, {record['samples']} samples, one fusion seed, {record['test images']:,} test "
        f"images ({reference}; "
        f"{machine['processor']}, {machine['threads']} threads; paper: {paper['machine']})",
        "",
        "| method | uniform | conductance | with REPAIR | least variance kept | seconds | paper, seconds |",
        "| --- |" + " --- |" * 6,
    ]
    for name, row in parts[0].items():
        if reason := row.get("reason"):
            lines.append(f"| {name} | {reason} |" + " |" * 5)
            continue
        several = [part.get(name) for part in parts]
        accuracies = [f"{one['accuracy']:.2f}" if one else "" for one in several]
        kept = f"{min(row['variance'].values()):.1%}" if row["variance"] else ""
        seconds = [f"{row['seconds']:.1f}", str(paper["seconds"].get(name, ""))]
        lines.append(f"| {name} | " + " | ".join([*accuracies, kept, *seconds]) + " |")
    return "\n".join(lines)


def gpu_speed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Seconds on a GPU by two versions, beside the paper's."""
    titles = [f"{title} ({record['machine']['commit']})" for record, title in ((before, "seconds"), (now, "now"))]
    lines = [
        f"**Speed on a GPU** ({_gpu(before)})",
        "",
        f"| work | {' | '.join(titles)} | paper, RTX A5000 |",
        "| --- | --- | --- | --- |",
    ]
    for unit, title in ON_A_GPU.items():
        rows = [record["units"].get(unit, {}) for record in (before, now)]
        paper = next((row["paper, seconds"] for row in rows if row.get("paper, seconds")), "")
        lines.append(f"| {title} | {' | '.join(map(_seconds, rows))} | {paper} |")
    return "\n".join(lines)


def _seconds(row: dict[str, Any]) -> str:
    """Two digits of a unit's seconds; refused; or nothing where it was not measured."""
    if "reason" in row:
        return "refused"
    if "seconds" not in row:
        return ""
    return f"{row['seconds']:.{2 if row['seconds'] < 10 else 1}f}"


def gpu_equality(record: dict[str, Any]) -> str:
    """How far weights that were fused on a GPU are from those of the CPU, by networks and precision."""
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for unit, row in record["units"].items():
        if unit != "tests":
            networks, method, precision = unit.split(", ")
            groups.setdefault((networks, precision), {})[method] = row
    lines = [
        f"**CPU and GPU compared** ({_gpu(record)})",
        "",
        "| networks | precision | methods | largest difference | other results |",
    ]
    lines.append("| --- |" + " --- |" * 4)
    for (networks, precision), rows in groups.items():
        other = {name: row for name, row in rows.items() if row["relative difference"] > ROUNDING[precision]}
        same = {name: row["relative difference"] for name, row in rows.items() if name not in other}
        largest = max(same, key=lambda name: same[name]) if same else ""
        accuracies = "; ".join(
            f"{name} {row['relative difference']:.2g} (accuracy {row['accuracy on the CPU']:.2f} and {row['accuracy']:.2f})"
            for name, row in other.items()
        )
        most = f"{same[largest]:.1e} ({largest})" if same else ""
        lines.append(f"| {networks} | {precision} | {len(rows)} | {most} | {accuracies} |")
    return "\n".join(lines)


def _gpu(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return f"{machine['gpu']}, {machine['cores']} cores, torch {machine['torch']}, {machine['date']}, commit {machine['commit']}"


if __name__ == "__main__":
    main()
