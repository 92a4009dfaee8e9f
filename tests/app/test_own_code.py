"""Own code in the workbench: it imports what its start named, and nothing that a browser sends."""

import sys

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1.element_tree import Selectbox

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
def address(tmp_path, runs_folder, nobody_trusts):
    """A form with two networks of a module that leaves a mark whenever it runs, and that nobody has named."""
    mark = f"\nwith open({str(tmp_path / 'ran')!r}, 'a') as mark:\n    mark.write('x')\n"
    (tmp_path / "mynet.py").write_text(MYNET + mark)
    runs_folder.mkdir()
    code = f"{tmp_path / 'mynet.py'}:small"
    user_code.allow(code)
    for index in range(2):
        model = build(fitted(parse(code), (1, 8, 8), 10), seed=index)
        save_model(model, runs_folder / f"net-{index}.safetensors")
    (tmp_path / "ran").unlink()
    user_code._files.clear()
    sys.modules.pop("mynet")
    sys.path.remove(str(tmp_path))
    files = "net-0.safetensors|net-1.safetensors"
    return {"preset": "own", "files": files, "method": "Average"}


@pytest.fixture
def offered(address, tmp_path, monkeypatch):
    """The workbench as started with --arch."""
    monkeypatch.setenv(user_code.VARIABLE, f"{tmp_path / 'mynet.py'}:small")


def ran() -> int:
    mark = runs.runs_folder().parent / "ran"
    return len(mark.read_text()) if mark.exists() else 0


def control(page, key):
    return next(box for box in page.selectbox if box.key == key)


@pytest.mark.parametrize(
    ("field", "text"),
    [("code", "../mynet.py:small"), ("code", "mynet:rows"), ("target", '{"architecture": "../mynet.py:small"}')],
)
def test_an_address_imports_nothing(address, field, text, monkeypatch):
    monkeypatch.syspath_prepend(runs.runs_folder().parent)
    page = open_form(**{**address, "method": "KF-Linear", field: text})  # which takes a target
    assert not page.exception and not ran() and button(page, "start").disabled
    assert any("start the workbench with: retrofit app --arch" in each.value for each in page.error), words(page)


def test_a_form_imports_nothing(address, monkeypatch):
    page, typed = open_form(**address), f"{runs.runs_folder().parent}/mynet.py:small"
    assert "start the workbench with: retrofit app --arch" in page.error[0].value and not ran()  # the files name it
    sent = Selectbox._widget_state.fget
    monkeypatch.setattr(
        Selectbox,
        "_widget_state",
        property(lambda self: WidgetState(id=self.id, string_value=typed) if self.key == "fuse-code" else sent(self)),
    )
    page.run()
    assert page.query_params["code"] == typed and not page.exception and not ran() and button(page, "start").disabled


def test_a_record_imports_nothing(address, monkeypatch, tmp_path):
    from retrofit_core.runs import RunConfig, execute

    monkeypatch.chdir(runs.runs_folder())
    models = ("net-0.safetensors", "net-1.safetensors")
    options = {"arch": "../mynet.py:small", "fusion_from": "iid", "samples": 20, "device": "cpu", "evaluate": True}
    user_code.allow(options["arch"])
    execute(RunConfig(models, method="Average", **options), "stranger")
    user_code._files.clear()
    sys.modules.pop("mynet")
    before = ran()
    page = open_form(run="stranger", **address)
    assert not page.exception and ran() == before
    assert not open_compare(runs="stranger").exception and ran() == before


def test_what_the_start_named_is_offered_checked_and_run(address, offered):
    page = open_form(**address)
    assert not page.error  # the files name what is offered
    assert control(page, "fuse-code").options == ["as the files say", "mynet:small"]
    page = control(page, "fuse-code").set_value("mynet:small").run()
    assert not page.error and not page.exception
    imported = ran()
    assert imported == 1
    others = {*CHILDREN}
    button(page, "start").click().run()
    (first,) = [child for key, child in CHILDREN.items() if key not in others]
    assert first.wait(120) == 0
    (entry,) = [entry for entry in runs.entries()[0] if not entry.shipped]
    assert entry.state == "done" and entry.config["arch"] == "mynet:small" and ran() == 2
    assert entry.metrics["networks"]["fused"]["samples"]
    page = open_compare(runs=entry.name)
    assert not page.exception and not page.error
