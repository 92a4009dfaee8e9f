"""User-defined networks: `package.module:function` or `file.py:function` names a factory in the user's code.

Importing a module runs it. So a name in a file (a checkpoint, a link) imports nothing by itself: networks are built only from
modules that the user allowed in this process by naming them on the command line or in Python.
"""

import hashlib
import importlib
import importlib.util
import inspect
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..system.registry import first_line

#: Common names of a factory's keywords for the number of classes, channels and pixels, which the data set.
CLASSES = ("classes", "num_classes", "n_classes", "num_labels")
CHANNELS = ("channels", "in_channels", "in_chans", "num_channels")
SIZE = ("size", "image_size", "img_size")
SHAPE = ("shape", "input_shape")
#: Entries of a spec other than the factory's keywords.
OURS = ("architecture", "input", "logits")
#: Prefixes of library networks, see `architectures.libraries`.
LIBRARIES = ("timm", "torchvision")
NAME = re.compile(r"[^:\s][^:]*:[A-Za-z_]\w*")
WARNING = "importing a module runs its code, so name only code that you trust"


class NotAllowed(ValueError):
    """A network of user code that was not allowed in this process."""


@dataclass(frozen=True)
class ModuleSource:
    """The source of a user module."""

    module: str
    """Its dotted name"""
    file: Path | None = None
    """Its file; None for an installed package"""
    folder: Path | None = None
    """The folder that its name is relative to"""


_allowed: dict[str, ModuleSource] = {}
_named: set[str] = set()
_asking = False
_permitted: set[ModuleSource] = set()
_loaded: dict[tuple[str, str], ModuleType] = {}
_importing = threading.RLock()


def is_own(name: object) -> bool:
    """Whether an architecture's name is that of a user's factory."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None and name.split(":")[0] not in LIBRARIES


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


def source_of(name: str, base: str | Path = ".") -> ModuleSource:
    """Locate the module of a factory without importing it.

    Args:
        base: folder that the name is relative to.
    Raises:
        ValueError: a missing file or an invalid name.
    """
    module = name.rpartition(":")[0]
    if module.endswith(".py"):
        path = (Path(base) / Path(module).expanduser()).resolve()
        if not path.is_file():
            raise ValueError(f"the architecture {name!r} names the file {path}, which does not exist.")
        return ModuleSource(path.stem, path, path.parent)
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(
            f"the architecture {name!r} names no module: write package.module:function, or FILE.py:function."
        )
    stem = Path(base).resolve().joinpath(*module.split("."))
    file = next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
    return ModuleSource(module, file, Path(base).resolve()) if file else ModuleSource(module)


def at(arch: str | None, base: str | Path) -> str | None:
    """Make file names in an architecture absolute; None and names of other kinds stay.

    Args:
        base: folder that the file names are relative to.
    """
    names = names_in(arch)
    if arch is None or not names:
        return arch
    if arch.lstrip().startswith("{"):
        return json.dumps({**json.loads(arch), "architecture": _located(names[0], base)})
    return ",".join(_located(name, base) for name in names)


def _located(name: str, base: str | Path) -> str:
    """A name with its absolute path, if its file is in `base` and not part of a package."""
    try:
        source = source_of(name, base)
    except ValueError:
        return name
    return f"{source.file}:{name.rpartition(':')[2]}" if source.file and "." not in source.module else name


def code_digest(arch: object, base: str | Path = ".") -> str | None:
    """Digest of the files of users' factories; None if there are none or one is missing. Imports nothing."""
    whole = hashlib.sha256()
    for name in names_in(arch):
        try:
            file = source_of(name, base).file
            whole.update(file.read_bytes() if file else canonical(name).encode())
        except (OSError, ValueError):
            return None
    return whole.hexdigest() if names_in(arch) else None


# --- trust ----------------------------------------------------------------------------------------


def ask_first() -> None:
    """From now on, import user modules only after `permit`: for servers, whose visitors may name anything."""
    global _asking
    _asking = True


def permit(arch: object, base: str | Path = ".") -> None:
    """Permit importing the modules of these factories in a process that asks first.

    Raises:
        ValueError: as in `source_of`.
    """
    _permitted.update(source_of(name, base) for name in names_in(arch))


def is_permitted(arch: object, base: str | Path = ".") -> bool:
    """Whether this process may import the modules that an architecture names."""
    try:
        return not _asking or all(source_of(name, base) in _permitted for name in names_in(arch))
    except ValueError:
        return True  # nothing to import; loading reports the error


def allow(arch: object, base: str | Path = ".") -> None:
    """Allow building networks of these factories from files that name them; only for names that the user gave.

    Imports nothing. Ignores architectures that are not user code.

    Raises:
        NotAllowed: this process asks first.
        ValueError: as in `source_of`.
    """
    for name in names_in(arch):
        source = source_of(name, base)
        if _asking and source not in _permitted:
            raise NotAllowed(
                f"the network {canonical(name)!r} is your own code, and {WARNING}: Retrofit imports it only if you "
                "say so."
            )
        _allowed[source.module] = source
        _named.add(canonical(name))


def is_allowed(name: str) -> bool:
    """Whether the module of a factory may be imported."""
    return canonical(name).split(":")[0] in _allowed


# --- factories ------------------------------------------------------------------------------------


def factory(name: str) -> Callable[..., Any]:
    """The function or class that a spec names; imports (runs) its module.

    Raises:
        NotAllowed: this module was not allowed in this process.
        ValueError: the module cannot be imported, or has no such function.
    """
    written = canonical(name)
    module_name, _, function = written.partition(":")
    source = _allowed.get(module_name)
    if source is None:
        raise NotAllowed(
            f"its architecture is {written!r}, a function in a user's code. If you trust it, name it: --arch "
            f"{written} (arch={written!r} in Python), in the folder of that module, or --arch FILE.py:{function}; "
            f"{WARNING}."
        )
    module = _imported(source, written)
    factory = getattr(module, function, None)
    # A file may only name what the module defines, not what it imports.
    if factory is None or not callable(factory) or (written not in _named and factory.__module__ != module.__name__):
        names = [
            name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
        ]
        raise ValueError(
            f"architecture {written!r}: {source.file or module_name} defines no function or class {function!r}. It "
            f"has {', '.join(names) or 'none'}."
        )
    return factory


def _imported(source: ModuleSource, name: str) -> ModuleType:
    """Import a module, again if its file has changed."""
    with _importing:
        try:
            if source.folder is not None and str(source.folder) not in sys.path:
                sys.path.insert(0, str(source.folder))  # for imports next to it
            if source.file is None or "." in source.module or source.file.name == "__init__.py":
                module = importlib.import_module(source.module)
                _check_place(module, source, name)
                return module
            return _of_file(source.module, source.file)
        except (NotAllowed, KeyboardInterrupt):
            raise
        except ModuleNotFoundError as error:
            if source.file is None and error.name and source.module.startswith(error.name):
                raise ValueError(
                    f"the architecture {name!r} is to come from the module {source.module!r}, which is neither in "
                    "the current folder nor installed. Start in its folder, or name its file: FILE.py:function."
                ) from error
            raise ValueError(f"{name!r} cannot be imported: {first_line(error)}.") from error
        except Exception as error:  # whatever the module's code raises
            raise ValueError(
                f"{source.file or source.module} cannot be imported ({type(error).__name__}: {first_line(error)})."
            ) from error


def _of_file(module_name: str, file: Path) -> ModuleType:
    known = sys.modules.get(module_name)
    if known is not None and getattr(known, "__file__", None) and Path(str(known.__file__)).resolve() == file:
        return known
    content = file.read_bytes()
    key = (str(file), hashlib.sha256(content).hexdigest())
    if key not in _loaded:
        # A unique name: two folders may each have a mynet.py.
        name = f"{module_name}_{hashlib.sha256(key[0].encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # as import does; dataclasses and pickle look there
        try:
            # Not by the loader: its bytecode is stale if the file changed within a second and kept its length.
            exec(compile(content, file, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        _loaded[key] = module
    return _loaded[key]


def _check_place(module: ModuleType, source: ModuleSource, name: str) -> None:
    """Refuse a module of the same name from elsewhere."""
    file = getattr(module, "__file__", None)
    if source.file is not None and (file is None or Path(file).resolve() != source.file):
        raise ValueError(
            f"the architecture {name!r} is to come from {source.file}, but {source.module!r} is {file} in this "
            "process. Rename the module."
        )


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
