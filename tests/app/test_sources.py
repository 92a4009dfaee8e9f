"""Data sets that are found."""

from retrofit_app.models import sources


def test_data_sets_are_found_beside_the_runs_and_where_the_variable_says(runs_folder, tmp_path, monkeypatch):
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    (tmp_path / "data" / ".hidden").mkdir()
    (tmp_path / "data" / "notes.txt").touch()
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    (elsewhere / "cifar10").mkdir(parents=True)
    monkeypatch.setenv(sources.VARIABLE, str(elsewhere))
    assert sources.data_sets() == ["digits", "../data/mnist", str(elsewhere / "cifar10")]
