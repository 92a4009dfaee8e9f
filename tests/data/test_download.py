"""`download` and `retrofit data`, with torchvision's fetching replaced: tests have no network."""

import pickle
import tarfile
from pathlib import Path
from urllib.error import URLError

import pytest
import torchvision.datasets.utils
from typer.testing import CliRunner

from retrofit_core.cli import app
from retrofit_core.data import DATASETS, load
from retrofit_core.data.download import SOURCES, download

from .test_cifar import batch, dumped
from .test_mnist import put

BY_HAND = [name for name in DATASETS if name not in SOURCES]


@pytest.fixture
def fetched(monkeypatch):
    """What would have been downloaded; archives are unpacked from what the test writes first."""
    urls = []

    def fetch(url, download_root, extract_root=None, filename=None, md5=None, **_):
        urls.append(url)
        with tarfile.open(f"{download_root}/{filename}") as archive:
            # Python 3.11 before 3.11.4 has no filters
            archive.extractall(download_root, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))

    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", fetch)
    monkeypatch.setattr(pickle, "load", lambda *_, **__: pytest.fail("a pickle was loaded"))
    return urls


def test_cifar_is_unpacked_but_not_unpickled(tmp_path, fetched, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "cifar100"
    (folder / "cifar-100-python").mkdir(parents=True)
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name in ("train", "test", "meta"):
            (folder / "cifar-100-python" / name).write_bytes(dumped(batch(labels="fine_labels")))
            archive.add(folder / "cifar-100-python" / name, f"cifar-100-python/{name}")
            (folder / "cifar-100-python" / name).unlink()
    assert str(download("CIFAR-100")) == "data/cifar100"
    assert fetched == ["https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"]
    # The bare name finds what was downloaded.
    assert len(load("cifar100")) == 4 and load("data/cifar100", "test").name == "cifar100"


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files_are_left_to_torchvision(tmp_path, name, monkeypatch):
    asked = []

    def stand_in(root, download):
        asked.append((Path(root).parent, download))
        put(Path(root) / {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}[name] / "raw")

    monkeypatch.setattr("torchvision.datasets.MNIST", stand_in)
    monkeypatch.setattr("torchvision.datasets.FashionMNIST", stand_in)
    assert load(download(name, tmp_path / name)).name == name
    assert asked == [(tmp_path, True)] and [path.name for path in tmp_path.iterdir()] == [name]


def test_half_a_download_is_not_taken_for_a_whole_one(tmp_path, monkeypatch):
    """torchvision looks only whether MNIST's unpacked files are there, not whether they are whole."""

    def stopped(root, download):
        put(Path(root) / "MNIST" / "raw")
        raise KeyboardInterrupt

    monkeypatch.setattr("torchvision.datasets.MNIST", stopped)
    with pytest.raises(KeyboardInterrupt):
        download("mnist", tmp_path / "new" / "mnist")
    assert not list((tmp_path / "new").iterdir())


def test_no_network_is_one_sentence_with_the_way_by_hand(tmp_path, monkeypatch):
    def fetch(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", fetch)
    result = CliRunner().invoke(app, ["data", "cifar10", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "could not be downloaded" in result.output and "no route to host" in result.output
    assert "put cifar-10-batches-py (unpacked cifar-10-python.tar.gz)" in result.output


@pytest.mark.parametrize("name", BY_HAND)
def test_the_others_say_what_to_download_and_where_to_put_it(name):
    with pytest.raises(ValueError, match="is not downloaded by this command: ") as caught:
        download(name)
    assert str(caught.value).count(". ") == 0 and DATASETS[name].advice.split()[0] in str(caught.value) + "it"


def test_unknown_names_are_told_the_nearest():
    with pytest.raises(ValueError, match="unknown data set 'cifar11'. Known: .* Did you mean 'cifar10'"):
        download("cifar11")


def test_without_a_name_all_are_listed():
    result = CliRunner().invoke(app, ["data"])
    assert result.exit_code == 0
    assert all(name in result.output for name in DATASETS)
