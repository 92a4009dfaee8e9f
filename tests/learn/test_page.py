"""The page is one file: it asks for nothing, and opens from disk."""

import json
import re

import pytest

from retrofit_app import learn
from retrofit_app.learn.train import CLASSES, PARENTS, SEEN, TEST, WIDTHS, accuracy, network, own_points, points
from retrofit_core.cli import main

FETCHED = re.compile(
    r"""(?:\bsrc|\bposter|\bxlink:href|<link[^>]*\bhref)\s*=\s*["']?(?!data:|#)[^"'\s>]+|@import|url\((?!["']?(?:data:|#))"""
)


def test_it_is_small_and_asks_for_nothing():
    text = learn.page()
    assert len(text.encode()) < 600_000
    assert "<!-- include" not in text and text.count("const Engine = ") == 1
    assert not [found[0] for found in FETCHED.finditer(text)]
    assert not re.search(r"\bfetch\(|XMLHttpRequest|new WebSocket|sendBeacon|importScripts|\bimport\(", text)


def test_the_parents_are_what_the_file_says_of_them():
    facts = json.loads(PARENTS.read_text())
    assert len(PARENTS.read_bytes()) < 200_000
    inputs, labels = points(**TEST)
    assert facts["parents"].keys() == SEEN.keys()
    for regime, widths in facts["parents"].items():
        assert list(widths) == [str(width) for width in WIDTHS]
        for width, parents in widths.items():
            for index, parent in enumerate(parents):
                model = network(parent["weights"], parent["biases"])
                assert [layer.out_features for layer in model[::2]] == [int(width), int(width), CLASSES]
                assert parent["accuracy"] == round(accuracy(model, inputs, labels), 3)
                assert parent["saw"] == own_points(regime, index, int(width))
                assert model[0].weight.tolist() == parent["weights"][0], "numbers are rounded as they are used"


def test_the_command_writes_the_file_whole(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "new" / "learn.html"
    assert main(["learn", "--out", str(file), "--no-browser"]) == 0
    assert file.read_text() == learn.page() and list(file.parent.iterdir()) == [file]
    assert str(file) in capsys.readouterr().out.replace("\n", "")
    assert main(["learn", "--no-browser"]) == 0
    assert (tmp_path / "cache/retrofit-workbench/learn.html").is_file()
    assert main(["learn", "--out", str(tmp_path), "--no-browser"]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.browser
def test_it_opens_from_disk_without_a_word_on_the_console(browser, tmp_path):
    learn.save(tmp_path / "learn.html")
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "learn.html").as_uri(), wait_until="load")
    page.wait_for_timeout(500)
    context.close()
    assert not said and [url for url in asked if not url.startswith("data:")] == [(tmp_path / "learn.html").as_uri()]
