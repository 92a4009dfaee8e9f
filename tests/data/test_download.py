"""`download`, with torchvision's fetching replaced: tests have no network."""

from pathlib import Path
from urllib.error import URLError

import pytest
import torchvision

from retrofit_core.data import DATASETS
from retrofit_core.data.download import SOURCES, download

from .test_mnist import put

BY_HAND = [name for name in DATASETS if name not in SOURCES and name != "digits"]


@pytest.mark.parametrize("name", SOURCES)
def test_torchvision_fetches_into_the_folder_and_the_name_finds_it(tmp_path, name, monkeypatch):
    asked, source = [], getattr(torchvision.datasets, SOURCES[name])

    def stand_in(root, download):
        asked.append((Path(root).parent, download))
        (Path(root) / source.__name__ / "raw").mkdir(parents=True)

    monkeypatch.setattr(torchvision.datasets, source.__name__, stand_in)
    monkeypatch.chdir(tmp_path)
    assert download(name) == Path("data", name) and (tmp_path / "data" / name / source.__name__).is_dir()
    assert asked == [(Path("data"), True)]


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

    monkeypatch.setattr(torchvision.datasets.cifar, "download_and_extract_archive", fetch)
    with pytest.raises(ValueError, match="could not be downloaded .*no route to host.* put cifar-10-batches-py"):
        download("cifar10", tmp_path)


@pytest.mark.parametrize("name", BY_HAND)
def test_the_others_say_what_to_download_and_where_to_put_it(name):
    with pytest.raises(ValueError, match="is not downloaded: ") as caught:
        download(name)
    assert str(caught.value).count(". ") == 0 and DATASETS[name].advice.split()[0] in str(caught.value) + "it"
