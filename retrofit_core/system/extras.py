"""What is installed: this library's version, and packages that only some installations have (the extras of pyproject.toml)."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

#: Packages that bear another name where they are installed from.
DISTRIBUTION = {"ot": "POT", "PIL": "Pillow", "distributed": "dask", "material": "mkdocs-material"}


def library_version() -> str:
    """The version in the metadata of the installed library; "unknown" if it is not installed."""
    try:
        return version("retrofit-workbench") or "unknown"  # None where the metadata are incomplete
    except PackageNotFoundError:
        return "unknown"


def require(package: str, extra: str) -> None:
    """Refuse work that needs a package which is not installed; called before `package` is imported where it is used.

    Args:
        extra: the name in pyproject.toml under which the package is listed.
    Raises:
        ValueError: says what is missing, and the line that installs it.
    """
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise  # the package is there, and lacks something itself
        raise ValueError(
            f'needs {DISTRIBUTION.get(package, package)}: pip install "retrofit-workbench[{extra}]".'
        ) from None
