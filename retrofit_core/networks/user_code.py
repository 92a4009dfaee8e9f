"""User-defined networks: `package.module:function` or `file.py:function` names a factory in the user's code.

Importing a module runs it. So only the names that this process's user typed are imported: on the command line, in RETROFIT_ARCH,
or in Python by `allow`. Checkpoints, records, links and forms may only name the same functions again.
"""

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..system.registry import first_line

#: Common names of a factory's keywords for the number of classes, channels and pixels, which the data set.
CLASSES = ("classes", "num_classes", "n_classes", "num_labels")
CHANNELS = ("channels", "in_channels", "in_chans", "num_channels")
SIZE = ("size", "image_size", "img_size")
SHAPE = ("shape", "input_shape")
#: Entries of a spec other than the factory's keywords.
OURS = ("architecture", "input", "logits")
NAME = re.compile(r"[^:\s][^:]*:[A-Za-z_]\w*")
#: Names, separated by commas, that the workbench's user typed: for its server and its workers.
VARIABLE = "RETROFIT_ARCH"


class NotAllowed(ValueError):
    """A network of user code that this process's user did not name."""


_files: dict[str, Path | None] = {}
"""Allowed names, without folders -> their module's file; None for installed packages"""


def is_own(name: object) -> bool:
    """Whether an architecture's name is that of a user's factory."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def names_in(arch: object) -> list[str]:
    """The names of users' factories in a value of `--arch` or `arch=`: a name, a comma-separated list, JSON, or a spec."""
    if isinstance(arch, str) and arch.lstrip().startswith("{"):
        try:
            arch = json.loads(arch)
        except ValueError:
            return []
    if isinstance(arch, Mapping):
        return [str(arch["architecture"])] if is_own(arch.get("architecture")) else []
    return [name for name in map(str.strip, arch.split(",")) if is_own(name)] if isinstance(arch, str) else []


def canonical(name: str) -> str:
    """The name in a spec, without the module's folder: `nets/mynet.py:make` becomes `mynet:make`."""
    module, _, function = name.rpartition(":")
    return f"{Path(module).stem if module.endswith('.py') else module}:{function}"


def absolute(name: str) -> str:
    """The name with the whole path of its file, if it names one or a module in the current folder."""
    module, _, function = name.rpartition(":")
    file = Path(module if module.endswith(".py") else f"{module}.py").expanduser()
    return f"{os.path.realpath(file)}:{function}" if module.endswith(".py") or file.is_file() else name


# --- who may name what ----------------------------------------------------------------------------


def allow(arch: object) -> None:
    """Allow the factories of an architecture that the user typed; other architectures are ignored. Imports nothing.

    Raises:
        ValueError: a missing file, an invalid name, or the name of a module in another folder.
    """
    for name in names_in(arch):
        if name in _files:
            continue
        folder, file = _place(name)
        module = canonical(name).rpartition(":")[0]
        for other, before in _files.items():
            if other.rpartition(":")[0] == module and before != file:
                raise _clash(name, file, before)
        _files[canonical(name)] = file
        if file is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))  # also for imports next to it


def allowed() -> list[str]:
    """The factories that this process's user named, without folders."""
    if names := names_in(os.environ.get(VARIABLE)):
        os.environ[VARIABLE] = ",".join(map(absolute, names))  # for workers, which run elsewhere
        allow(os.environ[VARIABLE])
    return list(_files)


def require_allowed(arch: object) -> None:
    """Refuse an architecture of user code that this process's user did not name; imports nothing.

    Raises:
        NotAllowed: there is one.
    """
    for written in map(canonical, names_in(arch)):
        if written not in allowed():
            raise NotAllowed(
                f"its architecture is {written!r}, a function in a user's code, and importing a module runs its code. If you "
                f"trust it, name it: --arch {written} (also of `retrofit app`; in Python user_code.allow({written!r})), in the "
                f"folder of that module, or --arch FILE.py:{written.rpartition(':')[2]}."
            )


def _clash(name: str, file: Path | None, other: object) -> ValueError:
    return ValueError(
        f"the architecture {name!r} is to come from {file or 'an installed package'}, but the module of that name is "
        f"{other or 'an installed package'} in this process. Rename the module."
    )


def _place(name: str) -> tuple[Path, Path | None]:
    """The folder that a module's name is relative to, and its file; None for an installed package.

    Raises:
        ValueError: a missing file or an invalid name.
    """
    module = name.rpartition(":")[0]
    if module.endswith(".py"):
        path = Path(os.path.realpath(Path(module).expanduser()))
        if not path.is_file():
            raise ValueError(f"the architecture {name!r} names the file {path}, which does not exist.")
        return path.parent, path
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(
            f"the architecture {name!r} names no module: write package.module:function, or FILE.py:function."
        )
    folder = Path.cwd().resolve()
    stem = folder.joinpath(*module.split("."))
    return folder, next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


# --- factories ------------------------------------------------------------------------------------


def factory(name: str) -> Callable[..., Any]:
    """The function or class that a spec names; imports (runs) its module.

    Raises:
        NotAllowed: this process's user did not name it.
        ValueError: the module cannot be imported, or has no such function.
    """
    require_allowed(name)
    written = canonical(name)
    file, (module_name, _, function) = _files[written], written.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module's code raises
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if file is None and missing and module_name.startswith(missing):
            raise ValueError(
                f"the architecture {written!r} is to come from the module {module_name!r}, which is neither in "
                "the current folder nor installed. Start in its folder, or name its file: FILE.py:function."
            ) from error
        raise ValueError(
            f"{file or module_name} cannot be imported ({type(error).__name__}: {first_line(error)})."
        ) from error
    found = getattr(module, "__file__", None)
    if file is not None and (found is None or Path(found).resolve() != file):
        raise _clash(written, file, found)
    make = getattr(module, function, None)
    if not callable(make):
        raise ValueError(f"architecture {written!r}: {file or module_name} defines no function or class {function!r}.")
    return make


def keywords_for(make: Callable[..., Any], shape: Sequence[int], classes: int) -> dict[str, Any]:
    """The factory's keywords that the data set, by their names in its signature.

    Args:
        shape: of one input, (channels, height, width) for an image.
    """
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # functions not written in Python
        return {}
    known = {**dict.fromkeys(CLASSES, classes), **dict.fromkeys(SHAPE, list(shape))}
    if len(shape) == 3:
        known |= {**dict.fromkeys(CHANNELS, shape[0]), **dict.fromkeys(SIZE, shape[1])}
    return {name: value for name, value in known.items() if name in parameters}
