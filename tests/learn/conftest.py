"""The browser of the workbench's tests."""

from tests.app.conftest import browser, screenshots  # noqa: F401
