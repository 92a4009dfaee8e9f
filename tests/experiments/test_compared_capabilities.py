"""The paper's comparison of algorithms beside what methods declare."""

from retrofit_core.experiments.capabilities import COLUMNS, COMPARED, compared_capabilities


def test_the_differences_are_those_that_the_page_of_baselines_explains():
    compared = compared_capabilities()
    assert list(compared.columns) == list(COLUMNS)
    assert list(compared.index) == ["OTFusion", "Git-Re-Basin", "ZipIt", "HF", "KF"]
    assert set(compared.to_numpy().ravel()) <= set(COMPARED.values())
    different = {(row, title) for row, words in compared.iterrows() for title in COLUMNS if "only" in words[title]}
    assert different == {
        ("OTFusion", "benefits from importance scores"),
        ("Git-Re-Basin", "transformers"),
        ("ZipIt", "transformers"),
        ("ZipIt", "different widths"),
    }
    assert compared.loc["ZipIt", "transformers"] == "only here"


def test_a_family_has_what_one_of_its_fits_has():
    compared = compared_capabilities()
    assert compared.loc["HF", "transformers"] == "both"  # by the gradient fit alone
    assert compared.loc["HF", "more than two models"] == "neither"
