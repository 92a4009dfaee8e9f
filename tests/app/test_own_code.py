"""Own checkpoints of own code in the form: a link imports nothing, Start runs it in the worker, a button imports it here."""

from pathlib import Path

import pytest
import torch

from retrofit_app import runs
from retrofit_core import save_model
from retrofit_core.networks import user_code
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.runs.worker import CHILDREN
from tests.own_networks import MYNET

from .test_compare_page import open_page as open_compare
from .test_fuse_page import button, open_form, words

pytestmark = pytest.mark.slow


@pytest.fixture
def address(tmp_path, runs_folder, nobody_trusts, monkeypatch):
    """A form that names two networks of a module which leaves a mark whenever it runs."""
    (tmp_path / "mynet.py").write_text(
        MYNET + f"\nwith open({str(tmp_path / 'ran')!r}, 'a') as mark:\n    mark.write('x')\n"
    )
    runs_folder.mkdir()
    code = f"{tmp_path / 'mynet.py'}:small"
    user_code.allow(code)
    for index in range(2):
        model = build(fitted(parse(code), (1, 8, 8), 10), seed=index)
        save_model(model, runs_folder / f"net-{index}.safetensors")
    (tmp_path / "ran").unlink()
    for name in ("_allowed", "_named", "_loaded"):
        getattr(user_code, name).clear()
    files = "net-0.safetensors|net-1.safetensors"
    return {"preset": "own", "files": files, "code": "../mynet.py:small", "method": "Average"}


def ran() -> int:
    mark = runs.runs_folder().parent / "ran"
    return len(mark.read_text()) if mark.exists() else 0


@pytest.mark.parametrize("ranked", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_link_imports_nothing_and_start_runs_it_elsewhere(address, ranked):
    page = open_form(**address)
    assert "names files outside" in page.info[0].value  # the module's file is not known, nor looked at
    page = button(page, "fuse-grant").click().run()
    assert not page.error and not page.exception
    assert any("is your own code, and importing a module runs its code" in each.value for each in page.warning)
    assert "runs that code" in words(page) and "mynet.py" in words(page) and not ran()
    others = {*CHILDREN}
    button(page, "start").click().run()
    (first,) = [child for key, child in CHILDREN.items() if key not in others]
    assert first.wait(120) == 0
    (entry,) = [entry for entry in runs.entries()[0] if not entry.shipped]
    assert entry.state == "done" and entry.config["arch"] == "../mynet.py:small" and ran() == 1
    assert entry.metrics["networks"]["fused"]["samples"]
    shown = open_form(run=entry.name)
    assert not shown.exception and ran() == 1  # looking at it imports nothing either
    board = open_compare(view="board", of=entry.name, methods="Average,Ensemble,SLERP", scores="uniform")
    assert not board.exception and not board.error and ran() == 1
    assert "1 is already done" in words(board) and "runs that code" in words(board) and "apply" in words(board)
    if not ranked:
        return
    button(board, "start-board").click().run()
    assert next(child for child in CHILDREN.values() if child is not first).wait(120) == 0
    made = [other for other in runs.entries()[0] if not other.shipped and other.state == "done"]
    assert {other.config["method"] for other in made} == {"Average", "Ensemble", "SLERP"} and ran() == 2


def test_after_the_button_the_form_checks_and_estimates(address):
    page = open_form(**address)
    page = button(page, "fuse-grant").click().run()
    page = button(page, "fuse-import").click().run()
    assert ran() == 1 and not page.error and not page.warning
    assert "takes **about" in words(page)


def test_own_code_that_only_the_file_names_is_said_to_be_that(address):
    page = open_form(**{**address, "code": ""})
    assert any("is code of its author's own" in each.value for each in page.error) and not ran()


def test_a_path_is_named_from_the_runs_folder(address, runs_folder, monkeypatch):
    from retrofit_app.pages.fuse import own_files, permission

    monkeypatch.setattr(permission, "grant", lambda names: None)
    named = {
        own_files._code(text) for text in ("mynet:small", "mynet.py:small", f"{runs_folder.parent}/mynet.py:small")
    }
    assert "../mynet.py:small" in named
    assert own_files._code(" timm:resnet18 ") == "timm:resnet18" and own_files._code("vgg11") == "vgg11"
    assert torch.nn and Path(runs_folder, "../mynet.py").is_file()
