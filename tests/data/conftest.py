"""Small image folders for the data tests."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    """An image file's bytes, of (H, W, 3) or (H, W) uint8."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A PNG whose header announces side x side pixels, with next to no data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def write(path: Path, images: list, labels: list, names: tuple[str, str] = ("image", "label")) -> None:
    """A Hugging Face-style parquet file."""
    rows = [image and {"bytes": image, "path": None} for image in images]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({names[0]: pa.array(rows, kind), names[1]: pa.array(labels)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@pytest.fixture
def pixels() -> np.ndarray:
    """Three RGB images of 4x6 pixels, (3, 4, 6, 3)."""
    return np.random.default_rng(0).integers(0, 256, (3, 4, 6, 3), dtype=np.uint8)


@pytest.fixture
def parquet_folder(tmp_path: Path, pixels: np.ndarray) -> Callable[[str], Path]:
    """A folder of the given name with a train.parquet of three images, labels 0, 1, 2."""

    def make(name: str) -> Path:
        write(tmp_path / name / "train.parquet", [encoded(image) for image in pixels], [0, 1, 2])
        return tmp_path / name

    return make
