"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data sets and checkpoints; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("RETROFIT_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "models").is_dir():
        pytest.skip(f"no shared data and checkpoints at {folder} (set RETROFIT_SHARED)")
    return folder


@pytest.fixture
def seed() -> int:
    return 0


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
