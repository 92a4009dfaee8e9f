"""Text that is not ours is shown as it is: nothing in it becomes a picture, a link or a heading."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from streamlit.testing.v1 import AppTest

from retrofit_app.figures import escaped, plain_text
from retrofit_app.figures.words import JOINER
from tests.marks import each_case

from .analyses import plain
from .pages import page_at

PICTURE = "![x](http://foreign.example/a.png)"
HOSTILE = [
    PICTURE,
    "[x](http://foreign.example)",
    "<http://foreign.example>",
    "<img src='http://foreign.example/a.png'>",
    "![x][1]\n\n[1]: http://foreign.example/a.png",
    "`" + PICTURE,
    "\\" + PICTURE,
    "$x$ :red[y] ~~z~~ **b** _i_ &lt;",
    "# heading",
    "> quotation",
    "1. list",
    "- list",
    "    code",
    "```\ncode",
]


def rendered(markdown: str) -> str | None:
    """The text of a Markdown, if it is one paragraph of nothing but text."""
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    if [block.type for block in blocks] != ["paragraph_open", "inline", "paragraph_close"]:
        return None
    parts = blocks[1].children or []
    return "".join(part.content for part in parts) if {part.type for part in parts} <= {"text"} else None


@each_case("text", HOSTILE)
def test_markdown_shows_the_text_itself(text):
    assert rendered(escaped(text)).replace(JOINER, "") == " ".join(text.split())


@pytest.mark.slow
@given(st.text(st.sampled_from("![](){}<>*_`~#$&:|+-=.\\/\n\t 1a@\"'"), max_size=30).filter(str.strip))
def test_no_text_becomes_anything_else(text):
    assert rendered(escaped(text)).replace(JOINER, "") == " ".join(text.split())
    assert plain_text(f"**{escaped(text)}**") == " ".join(text.split())


@pytest.mark.parametrize("text", ["http://a.example", "www.a.example", "a@b.example", ":material/home:", ":smile:"])
def test_addresses_are_no_links_and_words_between_colons_no_icons(text):
    # As the browser's Markdown looks for them in finished text, where a backslash no longer stands.
    patterns = r"https?://|www\.|\w@\w|:[\w+-]+:|:\w+/\w+:"
    assert re.search(patterns, text) and not re.search(patterns, escaped(text))


def unescaped(page: AppTest) -> list[str]:
    """Whatever the page gives to Markdown with a live picture in it."""
    kinds = ("title", "header", "markdown", "caption", "warning", "error", "info", "success")
    texts = [element.value for kind in kinds for element in page.get(kind)]
    for kind in ("button", "selectbox", "text_input", "number_input", "toggle", "expander", "page_link"):
        for element in page.get(kind):
            texts += [getattr(element, name, "") or "" for name in ("label", "help")]
    return [text for text in texts if re.search(r"(?<!\\)\[x\]\(http", str(text))]


WORDS = {
    "fuse": ["preset", "method", "importance", "grouping", "samples", "arch", "networks", "data", "files", "options"],
    "levels": ["level", "step", "score", "view", "lecture", "neuron"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_no_word_of_the_address_becomes_a_picture(runs_folder, name):
    page = page_at(name, **dict.fromkeys([*WORDS[name], "run", "format", "unknown"], f"{PICTURE}=1"), **{PICTURE: "1"})
    assert page.warning and not page.exception
    assert unescaped(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fuse", "levels"])
def test_no_word_of_a_record_becomes_a_picture(runs_folder, name):
    import pandas as pd

    runs_folder.mkdir()
    folder = plain(runs_folder)
    config, metrics = (json.loads((folder / file).read_text()) for file in ("config.json", "metrics.json"))
    for part in ("method", "importance", "samples", "grouping"):
        config["config"][part] = PICTURE
    metrics["classes"] = [f"{PICTURE}{index}" for index in range(len(metrics["classes"]))]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.json").write_text(json.dumps(metrics))
    levels = pd.read_parquet(folder / "levels.parquet")
    levels.assign(level=PICTURE + levels["level"], kind=PICTURE).to_parquet(folder / "levels.parquet")
    assert unescaped(page_at(name, run="plain")) == []
