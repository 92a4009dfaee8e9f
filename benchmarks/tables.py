"""Print the records in results/ as the tables of docs/measurements.md: `python benchmarks/tables.py`."""

from typing import Any

import ancestors
import resnets
from machine import read

ORDER = ("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient")
SCORES = ("uniform", "conductance", "deeplift")
PLAIN = ("toward zero, auto", "")
#: Units of gpu-h100-speed -> the work in words, and the seconds that are aimed at.
ON_A_GPU: dict[str, tuple[str, float | None]] = {
    "HF-Linear": ("HF-Linear, VGG11 pair, 400 samples", 0.4),
    "KF-Linear": ("KF-Linear", 0.5),
    "HF-Gradient": ("HF-Gradient", 1.7),
    "KF-Gradient": ("KF-Gradient", 1.7),
    **{name: (name, None) for name in ("OTFusion", "Git-Re-Basin", "ZipIt", "PLeaS", "RegMean", "Average")},
    "KF-Linear, two ViTs": ("KF-Linear, two ViTs (7 blocks, 384 wide), 400 samples", 1.5),
    "KF-Linear, two ResNet-18s": ("KF-Linear, two ResNet-18s, 400 samples", 1.5),
    "landscape": ("landscape, 41 x 41 points, 2,000 images", 60),
    "training of vgg11": ("an epoch of VGG11, 25,000 images", 0.25),
    "a unit of a table, beside its fusion": ("a unit of a table, beside its fusion", 1),
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
    if record := read("resnets"):
        print(f"**HF-Linear beside KF-Linear on two equal ResNets**{_on(record)}\n\n{resnets.table(record)}\n")
    if record := read("ancestors"):
        print(f"**Parents with a common ancestor**{_on(record)}\n\n{ancestors.table(record)}\n")
        print(f"**Options of the merges**{_on(record)}\n\n{ancestors.options_table(record)}\n")
    if record := read("training"):
        print(training(record), "\n")
    if record := read("memory"):
        print(memory(record), "\n")
    if record := read("memory-resnet50"):
        print(large_memory(record), "\n")
    print(gpu_speed(read("gpu-h100-speed"), read("gpu-h100-speed-now")), "\n")
    print(gpu_profile(read("gpu-h100-ceilings"), read("gpu-h100-speed")), "\n")
    print(gpu_ceilings(read("gpu-h100-ceilings")), "\n")
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
        (method, ridge)
        for method in ORDER
        for ridge in sorted({key[2] for key in cells if key[0] == method}, key=lambda r: (r not in PLAIN, r))
    ]
    for method, ridge in variants:
        label = method if ridge in PLAIN else f"{method}, {ridge}"
        rows = [cells.get((method, score, ridge)) for score in SCORES]
        lines.append(f"| {label} | " + " | ".join(map(cell, rows)) + " |")
    return "\n".join(lines)


def _on(record: dict[str, Any]) -> str:
    """Samples and machine, for a table's title."""
    machine = record["machine"]
    return f", {record['samples']} samples ({machine['processor']}, {machine['threads']} thread, commit {machine['commit'][:8]})"


def cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['mean']:.2f} ± {row['deviation'] or 0:.2f}"


def speed(record: dict[str, Any]) -> str:
    """Seconds, breakdown, floor and the direct form; k-means; conductance; the demo."""
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
    row("times the floor", *(f"{x['times the floor']:.2f}" for x in linear))
    row("floor with the report's own solves", *(f"{x['floor with the report, seconds']:.1f}" for x in linear))
    row("times this floor", *(f"{x['times the floor with the report']:.2f}" for x in linear))
    if direct := record.get("direct"):
        seconds = [direct[name] for name in ORDER[:2]]
        row(f"direct form, seconds{elsewhere('direct')}", *(f"{value:.0f}" for value in seconds))
        if not elsewhere("direct"):
            row(
                "times faster than it",
                *(f"{value / x['median seconds']:.1f}" for value, x in zip(seconds, linear, strict=True)),
            )
    gradient = ", ".join(f"{name} {x['seconds']:.0f} s" for name, x in record["gradient"].items())
    lines += [
        "",
        f"Gradient methods: {gradient}{elsewhere('gradient')}. Digits demo, cold to fused: "
        f"{record['digits demo']['cold to fused, seconds']:.1f} s{elsewhere('digits demo')}.",
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
        f"{x['largest relative difference']:.1e}; bfloat16 {x['bfloat16, seconds']:.1f} s, least rank correlation "
        f"{x['bfloat16, least rank correlation']:.4f}{elsewhere('conductance')}"
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
        "| method | uniform | conductance | with REPAIR | least variance kept: uniform | conductance | seconds | of a "
        "processor | paper, seconds |",
        "| --- |" + " --- |" * 8,
    ]
    for name, row in parts[0].items():
        if reason := row.get("reason"):
            lines.append(f"| {name} | {reason} |" + " |" * 7)
            continue
        several = [part.get(name) for part in parts]
        accuracies = [f"{one['accuracy']:.2f}" if one else "" for one in several]
        kept = [f"{min(one['variance'].values()):.1%}" if one and one["variance"] else "" for one in several[:2]]
        seconds = [f"{row['seconds']:.1f}", f"{row['processor seconds']:.1f}", str(paper["seconds"].get(name, ""))]
        lines.append(f"| {name} | " + " | ".join([*accuracies, *kept, *seconds]) + " |")
    return "\n".join(lines)


def training(record: dict[str, Any]) -> str:
    """Seconds an epoch of each architecture, in each precision beside its floor."""
    machine, rows = record["machine"], {(row["architecture"], row["precision"]): row for row in record["rows"]}
    precisions = list(dict.fromkeys(precision for _, precision in rows))
    count = record["rows"][0]["images"]
    lines = [
        f"**Training**, seconds for {count:,} CIFAR-10 images ({machine['processor']}, {machine['threads']} threads)",
        "",
        "| | " + " | ".join(f"{precision} | floor" for precision in precisions) + " |",
        "| --- |" + " --- | --- |" * len(precisions),
    ]
    for name in dict.fromkeys(name for name, _ in rows):
        cells = [rows.get((name, precision)) for precision in precisions]
        lines.append(
            f"| {name} | "
            + " | ".join(
                f"{row['seconds']:.1f} ± {row['deviation']:.1f} | {row['floor']:.1f}" if row else " | " for row in cells
            )
            + " |"
        )
    return "\n".join(lines)


def memory(record: dict[str, Any]) -> str:
    """Peak memory of KF-Linear under a budget below the kept tensors."""
    runs = "; ".join(
        f"{int(samples):,} samples: {run['peak bytes'] / 1e6:,.0f} MB ({run['bytes before'] / 1e6:,.0f} MB before), "
        f"{run['seconds']:.0f} s"
        for samples, run in record["runs"].items()
    )
    return (
        f"**Memory**, KF-Linear, {record['pair']}, budget {record['budget, bytes'] / 1e6:.0f} MB: {runs}. "
        f"Ratio {record['ratio']:.2f}."
    )


def large_memory(record: dict[str, Any]) -> str:
    """Peak memory of a large fusion with a few samples, and what follows for all."""
    runs = "; ".join(
        f"{samples} samples: {run['peak bytes'] / 1e6:,.0f} MB ({run['bytes before'] / 1e6:,.0f} MB before)"
        for samples, run in record["runs"].items()
    )
    whole = record["all samples"]
    accounted = {(row["samples"], row["budget, bytes"]): row["bytes"] / 1e6 for row in record["accounted"]}
    expected = "; ".join(
        f"{samples:,} samples, budget {budget / 1e6:,.0f} MB: {bytes_:,.0f} MB"
        for (samples, budget), bytes_ in accounted.items()
    )
    return (
        f"**Memory of large networks**, KF-Linear, two ResNet-50s at 224 x 224, budget {record['budget, bytes'] / 1e6:,.0f} MB: "
        f"{runs}. It follows for {whole['samples']:,} samples ({whole['input bytes'] / 1e6:,.0f} MB in half precision): "
        f"{whole['peak bytes'] / 1e6:,.0f} MB. The estimate before a run expects: {expected}."
    )


def gpu_speed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Seconds on a GPU, beside those of a later record, if there is one, the goals, and the paper's."""
    records = [(before, "seconds"), (now, "now")] if now else [(before, "seconds")]
    titles = [f"{title} ({record['machine']['commit']})" for record, title in records]
    columns = [*titles, "goal", "paper, RTX A5000"]
    lines = [
        f"**Speed on a GPU** ({_gpu(before)})",
        "",
        f"| work | {' | '.join(columns)} |",
        "| --- |" + " --- |" * len(columns),
    ]
    for unit, (title, goal) in ON_A_GPU.items():
        rows = [record["units"].get(unit, {}) for record, _ in records]
        paper = next((row["paper, seconds"] for row in rows if row.get("paper, seconds")), "")
        cells = [*map(_seconds, rows), "" if goal is None else f"{goal:g}", str(paper)]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(row: dict[str, Any]) -> str:
    """Two digits of a unit's seconds; refused; or nothing where it was not measured."""
    if "reason" in row:
        return "refused"
    if "seconds" not in row:
        return ""
    span = f" ({row['least']:.1f} to {row['most']:.1f})" if "least" in row else ""
    return f"{row['seconds']:.{2 if row['seconds'] < 10 else 1}f}{span}"


def gpu_profile(record: dict[str, Any], speed: dict[str, Any]) -> str:
    """What two fusions asked of a GPU."""
    profiles = record["profiles"]
    lines = [
        f"**Profiles on a GPU** ({_gpu(record)})",
        "",
        f"| | {' | '.join(profiles)} |",
        "| --- |" + " --- |" * len(profiles),
    ]
    rows: dict[str, list[str]] = {
        "seconds": [_seconds(speed["units"][name]) for name in profiles],
        "of these the device works": [
            f"{profile['seconds that the device worked']:.2f}" for profile in profiles.values()
        ],
    }
    calls = [profile["runtime calls"] for profile in profiles.values()]
    rows["launches"] = [f"{one['cudaLaunchKernel'] + one['cudaLaunchKernelExC']:,}" for one in calls]
    rows["stream synchronises"] = [f"{one['cudaStreamSynchronize']:,}" for one in calls]
    lines += [f"| {title} | {' | '.join(cells)} |" for title, cells in rows.items()]
    return "\n".join(lines)


def gpu_ceilings(record: dict[str, Any]) -> str:
    """What a GPU reaches."""
    lines = [f"**What the GPU reaches** ({_gpu(record)})", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value:.3g} |" for name, value in record["ceilings"].items()]
    return "\n".join(lines)


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
        told = "; ".join(
            f"{name} {row['relative difference']:.2g} (accuracy {row['accuracy on the CPU']:.2f} and {row['accuracy']:.2f})"
            for name, row in other.items()
        )
        most = f"{same[largest]:.1e} ({largest})" if same else ""
        lines.append(f"| {networks} | {precision} | {len(rows)} | {most} | {told} |")
    return "\n".join(lines)


def _gpu(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return f"{machine['gpu']}, {machine['cores']} cores, torch {machine['torch']}, {machine['date']}, commit {machine['commit']}"


if __name__ == "__main__":
    main()
