"""What is installed: this library's version, and optional packages (the extras of pyproject.toml)."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

#: Module -> name of its distribution, where they differ.
DISTRIBUTION = {"ot": "POT", "PIL": "Pillow", "distributed": "dask", "material": "mkdocs-material"}


class Missing(ValueError):
    """A package that is not installed."""


def library_version() -> str:
    """The version of the installed library; "unknown" if it is not installed."""
    try:
        return version("retrofit-workbench") or "unknown"  # None if the metadata are incomplete
    except PackageNotFoundError:
        return "unknown"


def require(package: str, extra: str) -> None:
    """Refuse work that needs a missing package; call it before importing `package`.

    Args:
        extra: the extra in pyproject.toml that lists the package.
    Raises:
        Missing: says what is missing, and how to install it.
    """
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise  # a dependency of the package is missing
        raise Missing(
            f'needs {DISTRIBUTION.get(package, package)}: pip install "retrofit-workbench[{extra}]".'
        ) from None
