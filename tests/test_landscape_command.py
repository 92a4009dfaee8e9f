"""retrofit landscape, in this process, with small networks of digits that nobody trained."""

import csv
import json

import pytest

from retrofit_core.cli import main
from retrofit_core.inspection.landscape import Survey
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import RunConfig, execute

MLP = {"architecture": "mlp", "sizes": [64, 8, 6, 10]}
SMALL = ("--resolution", "3", "--images", "40", "--path-points", "3", "--directions", "3", "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    for index, name in enumerate(("a", "b", "fused", "tuned")):
        save_model(build(MLP, seed=index), folder / f"{name}.safetensors")
    save_model(build({**MLP, "sizes": [64, 9, 6, 10]}, seed=0), folder / "wide.safetensors")
    config = RunConfig(
        (str(folder / "a.safetensors"), str(folder / "b.safetensors")),
        fusion_from="iid",
        method="KF-Linear",
        samples=60,
        device="cpu",
    )
    execute(config, folder / "run")
    return folder


@pytest.fixture
def said(folder, monkeypatch, capsys):
    """What a command prints, and its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "150")

    def call(*words):
        code = main(["landscape", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def test_checkpoints_are_surveyed_printed_and_written(said, folder):
    words = ("a.safetensors", "b.safetensors", "--fused", "fused.safetensors", "--tuned", "tuned.safetensors")
    code, text = said(*words, *SMALL, "--align", "git-re-basin", "--clip", "2.4", "--out", "out", "--json")
    assert code == 0, text
    survey = Survey.load(folder / "out")
    assert json.loads(text)["loss"] == survey.to_json()["loss"]
    names = ["parent 0", "parent 1", "fused", "aligned parent 1", "average", "fine-tuned"]
    assert [marker.name for marker in survey.markers] == names and survey.done == survey.total
    assert survey.facts["images"] == 40 and survey.facts["clip"] == 2.4
    with (folder / "out" / "landscape.csv").open() as file:
        kinds = [line["kind"] for line in csv.DictReader(file)]
    assert [kinds.count(kind) for kind in ("network", "grid", "path")] == [6, 9, 9]


def test_a_record_knows_its_networks_and_data(said, folder):
    code, text = said(
        "--record", "run", *SMALL, "--through", "parent 0, aligned parent 1, fused", "--align", "otfusion"
    )
    assert code == 0, text
    assert "The plane through parent 0, aligned parent 1 and fused" in text


def test_the_plan_says_how_much_work_it_is_and_does_nothing(said, folder):
    words = ("a.safetensors", "b.safetensors", "--fused", "fused.safetensors", *SMALL, "--plan", "--out", "none")
    code, text = said(*words)
    assert code == 0 and "38 points of weight space (4 of networks, 9 of grid, 9 of paths, 16 of flatness)" in text
    assert not (folder / "none").exists()
    assert json.loads(said(*words, "--json")[1])["evaluations"]["grid"] == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["a.safetensors", "b.safetensors"],
            "a plane needs three networks that are not on one line. Found parent 0",
        ),
        (["a.safetensors", "b.safetensors", "--through", "parent 0, parent 1, average"], "are on one line"),
        (["a.safetensors", "--record", "run"], "omit the checkpoints"),
        (["--record", "nothing"], "nothing is not a run record"),
        (["a.safetensors", "b.safetensors", "--fused", "fused.safetensors", "--norms", "none"], "norms"),
        (["a.safetensors", "b.safetensors", "--fused", "no.safetensors"], "there is no checkpoint at no.safetensors"),
    ],
)
def test_what_cannot_be_surveyed_is_refused(said, words, message):
    code, text = said(*words)
    assert code == 2 and message in text.replace("\n", " "), text
