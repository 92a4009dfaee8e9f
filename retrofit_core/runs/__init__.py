"""Run records: one folder per run, written by the command line, the app's worker and experiments alike.

config.json (everything needed to repeat the run: settings, digests of its files), status.json (its
progress), events.jsonl, at the end levels.parquet, arrays.npz, fused.safetensors, result.json and metrics.json, and on
request analysis.json and analysis.npz. The writer of a record holds its lock. The app only reads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import RunConfig
    from .execute import analyse_record, checkpoint_metadata, execute
    from .identities import Identity, identity
    from .inputs import check_choices, method_keywords, read_inputs
    from .record import Run, create, read_config, read_identity, read_run, read_status, record_folder

__all__ = [
    "Identity",
    "Run",
    "RunConfig",
    "analyse_record",
    "check_choices",
    "checkpoint_metadata",
    "create",
    "execute",
    "identity",
    "method_keywords",
    "read_config",
    "read_identity",
    "read_inputs",
    "read_run",
    "read_status",
    "record_folder",
]
#: Imported on first access, so that the app can read `store` without importing torch.
_HOMES = ("config", "execute", "identities", "inputs", "record")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # All modules first, then names: importing the module `execute` binds that name to the module.
    modules = [import_module(f".{home}", __name__) for home in _HOMES]
    globals().update({item: getattr(home, item) for item in __all__ for home in modules if hasattr(home, item)})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
