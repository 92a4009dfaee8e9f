"""A finished run as one file: its words and figures are the app's, it asks nobody for anything, and the command writes it."""

import json
import re
import shutil
from html import unescape

import pytest

from retrofit_app import figures, runs, share
from retrofit_app.figures import DARK, LIGHT
from retrofit_app.runs import headline, levels

pytestmark = pytest.mark.slow

SHIPPED = runs.BUNDLED / "kf-linear"


def drawn(page: str) -> list[dict]:
    """The figures of a page, each in both themes."""
    return [json.loads(text) for text in re.findall(r"<script type='application/json'>(.*?)</script>", page)]


def said(page: str) -> str:
    """What a page says, without its scripts and styles."""
    whole = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return spaced(unescape(re.sub(r"<[^>]+>", " ", whole)))


def spaced(text: str) -> str:
    """A text with single plain spaces."""
    return " ".join(text.split())


def test_the_page_has_the_figures_of_the_app():
    entry = runs.read_entry(SHIPPED, shipped=True)
    page = share.page(entry)
    words, found = said(page), drawn(page)
    assert headline.title(entry, runs.class_counts(entry)) in words
    assert spaced(figures.plain_text(headline.finding(entry))) in words
    for table in entry.metrics["networks"].values():
        assert spaced(figures.percent(table["accuracy"])) in words
    overview = levels.overview(entry)
    assert found[1] == {
        name: json.loads(
            figures.level_losses(overview.table, overview.course, palette, overview.worst).figure.to_json()
        )
        for name, palette in (("light", LIGHT), ("dark", DARK))
    }
    assert len(found) == 2 + len(overview.table) + 2  # ingredients and strip, each level's neurons, both planes
    for name in overview.table["level"]:
        assert f"· {name}" in words
    assert "retrofit fuse parent-0.safetensors parent-1.safetensors" in words
    assert page.count("<script>") == 2 and "default-src 'none'" in page
    assert not re.search(
        r"<(?:link|img|iframe|script)[^>]+(?:src|href)=", re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    )


def test_foreign_text_is_shown_and_paths_of_this_machine_are_not(tmp_path):
    record = shutil.copytree(SHIPPED, tmp_path / "<b>run")
    config = json.loads((record / "config.json").read_text())
    config["config"]["models"] = [f"/home/me/{name}" for name in config["config"]["models"]]
    (record / "config.json").write_text(json.dumps(config))
    metrics = json.loads((record / "metrics.json").read_text())
    metrics["classes"][0] = evil = "</script><img src=http://example.org/x>"
    (record / "metrics.json").write_text(json.dumps(metrics))
    page = share.page(runs.read_entry(record))
    assert evil not in page and "<b>run" not in page and "/home/me" not in page
    assert "parent-0.safetensors parent-1.safetensors" in said(page)


def test_damaged_parts_say_so_and_the_others_stay(tmp_path):
    record = shutil.copytree(SHIPPED, tmp_path / "run")
    (record / "levels.parquet").write_bytes(b"no table")
    words = said(share.page(runs.read_entry(record)))
    assert "the levels of run run cannot be read" in words and "What is between the networks?" in words


def test_what_is_not_finished_is_refused(tmp_path):
    record = shutil.copytree(SHIPPED, tmp_path / "begun")
    status = json.loads((record / "status.json").read_text())
    (record / "status.json").write_text(json.dumps(status | {"state": "running"}))
    with pytest.raises(ValueError, match="is interrupted, and only finished runs"):
        share.page(runs.read_entry(record))


@pytest.mark.browser
def test_it_is_read_without_a_network_on_a_phone_in_the_dark_and_on_paper(browser, tmp_path):
    (tmp_path / "run.html").write_text(share.page(runs.read_entry(SHIPPED, shipped=True)), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 900}, color_scheme="dark", offline=True)
    page, trouble = context.new_page(), []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url))
    page.goto((tmp_path / "run.html").as_uri())
    page.locator(".plot .main-svg").last.wait_for()
    assert trouble == [(tmp_path / "run.html").as_uri()]
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(22, 22, 20)"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".plot:not(:has(.main-svg))").count() == 0
    page.locator(".plot").first.hover()
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    widths = page.evaluate("[...document.querySelectorAll('.plot .main-svg')].map((svg) => svg.clientWidth)")
    assert max(widths) <= 680
    cut = "[...document.querySelectorAll('.wide, .tile')].filter((part) => part.scrollWidth > part.clientWidth).length"
    assert page.evaluate(cut) == 0  # nothing is cut off on paper
    context.close()
