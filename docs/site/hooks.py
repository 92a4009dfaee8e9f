"""What mkdocs asks while it builds the site (mkdocs.yml): pages made from code and records, links out of docs/, formulas.

Nothing of this is needed to read docs/*.md where they stand: they are plain Markdown.
"""

import sys
from pathlib import Path

import commands
import gallery
import links
import maths
import measured
import methods
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.append(str(links.ROOT / "app"))  # where the workbench is not installed
from retrofit_app import learn  # noqa: E402

#: Tab -> the module that makes its pages.
SECTIONS = {"Methods": methods, "Notebooks": gallery}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the tabs that mkdocs.yml leaves empty, and say how formulas are drawn."""
    assert config.nav is not None
    for entry in config.nav:
        for name, module in SECTIONS.items():
            if name in entry:
                entry[name] = module.navigation()
    listed = str(config.nav)
    others = [path.name for path in sorted(Path(config.docs_dir).glob("*.md")) if f"'{path.name}'" not in listed]
    config.nav[-1]["Project"] += others  # pages that mkdocs.yml does not know yet
    fences = {"custom_fences": [{"name": "math", "class": "math", "format": maths.fence}]}
    config.mdx_configs["pymdownx.superfences"] = fences
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the files outside of docs/ that pages link to."""
    pages: dict[str, str | bytes] = {"assets/site.css": (links.ROOT / "docs" / "site" / "site.css").read_text()}
    for module in (*SECTIONS.values(), commands, measured):
        pages |= module.pages()
    pages |= links.pages()
    pages["learn.html"] = learn.page()
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository become links to their copies on the site."""
    return links.rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas within sentences become MathML."""
    return maths.drawn(html)
