"""Read weight files: safetensors, and state dicts that torch.save wrote. No code in them runs."""

import argparse
import collections
import json
import pathlib
import re
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..system.files import facts_of as facts_of_file
from ..system.files import read
from ..system.registry import first_line
from .headers import LARGEST, metadata_of

_ARRAYS: Any = getattr(np, "_core", None) or getattr(np, "core")  # noqa: B009 - of NumPy 1
_ARRAYS = _ARRAYS.multiarray
#: Safe types, besides tensors and Python's built-ins, that training scripts save with settings and metrics.
HARMLESS = [
    argparse.Namespace,
    types.SimpleNamespace,
    collections.defaultdict,
    pathlib.PosixPath,
    pathlib.PurePosixPath,
    np.ndarray,
    np.dtype,
    *(type(np.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")),
    (_ARRAYS.scalar, "numpy.core.multiarray.scalar"),
    (_ARRAYS.scalar, "numpy._core.multiarray.scalar"),
    (_ARRAYS._reconstruct, "numpy.core.multiarray._reconstruct"),
    (_ARRAYS._reconstruct, "numpy._core.multiarray._reconstruct"),
]
#: Keys under which training scripts keep a state dict.
KEYS = ("state_dict", "model")
ADVICE = "Save the network's own tensors in Python: torch.save(network.state_dict(), 'network.pt')."


def facts_of(path: Path) -> dict[str, Any]:
    """The decoded metadata of a safetensors file; for torch files, the class names if present.

    Raises:
        ValueError: as in `content_of`.
    """
    return _facts(path) if _is_safetensors(path) else classes_in(_unpickled(path))


def content_of(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts in a checkpoint, as `facts_of`, and its tensors as stored, by name.

    Raises:
        ValueError: missing, damaged, or another kind of file; the message says what to do.
    """
    if _is_safetensors(path):
        facts = _facts(path)
        try:  # all of it in memory: a file that is shortened while it is mapped kills the process
            return facts, safetensors.torch.load(read(path))
        # KeyError: a dtype that safetensors knows and torch does not.
        except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} is damaged: {first_line(error)}. Copy it again.") from error
    content = _unpickled(path)
    inside = [content[key] for key in KEYS if key in content] if isinstance(content, Mapping) else []
    for state in (*inside, content):
        tensors = (
            {name: each for name, each in state.items() if isinstance(each, Tensor)}
            if isinstance(state, Mapping)
            else {}
        )
        if tensors and all(isinstance(name, str) for name in tensors):
            return classes_in(content), tensors
    raise ValueError(f"{path} holds no state dict, alone or under {' or '.join(map(repr, KEYS))}. {ADVICE}")


def _is_safetensors(path: Path) -> bool:
    """Raises ValueError: there is no such file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name the checkpoint in it.")
    try:
        facts_of_file(path)
        with path.open("rb") as file:
            head = file.read(9)
    except FileNotFoundError as error:
        raise ValueError(f"there is no checkpoint at {path}.") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") <= LARGEST:
        return True
    return path.suffix == ".safetensors" and not head.startswith((b"PK", b"\x80"))  # torch.save's


def _facts(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            facts = {name: _decoded(text) for name, text in metadata_of(file).items()}
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    return facts


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def classes_in(content: object) -> dict[str, Any]:
    """{"classes": names in the order of the outputs} if a torch.save file has them, else {}."""
    names = content.get("classes") if isinstance(content, Mapping) else None
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return {"classes": list(names)}
    return {}


def _unpickled(path: Path) -> Any:
    """Load a torch.save file."""
    try:
        with torch.serialization.safe_globals(HARMLESS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about quantised tensors, which are refused later
            with path.open("rb") as file:  # from a path, torch may mistake it for safetensors
                return torch.load(file, map_location="cpu", weights_only=True)
    # Unpickling damaged bytes raises almost anything; no code of the file runs in any case.
    except Exception as error:
        foreign = re.search(r"nsupported (?:global: )?GLOBAL (\S+)", str(error))
        if foreign is None:
            raise ValueError(
                f"{path} is damaged, or no checkpoint: safetensors are read, and .pt, .pth or .ckpt with a state dict. {ADVICE}"
            ) from error
        raise ValueError(
            f"{path} holds an object of {foreign[1]}, whose code would have to be run; pickled code is never run here. Where you "
            f"trust it, in Python beside that code: content = torch.load({str(path)!r}, weights_only=False); then "
            "torch.save(content.state_dict(), 'tensors.pt'), or torch.save(content[KEY], 'tensors.pt') with the entry that holds "
            "the tensors."
        ) from error
