"""Run records: one folder per run, written by the command line, the app's worker and experiments alike.

config.json (everything needed to repeat the run), status.json (where it stands), events.jsonl, levels.parquet and
arrays.npz (finished levels), partial.safetensors (their weights, to resume), fused.safetensors, result.json and
metrics.json (at the end), analysis.json and analysis.npz (where asked for). The app only reads.
"""

from .config import RunConfig, all_keywords, check_choices, config_options, method_keywords, read_boundaries
from .execute import analyse_record, checkpoint_metadata, execute
from .inputs import asks_for_shares, class_shares, fusion_rows, read_inputs
from .record import Run, create, list_runs, read_config, read_run, read_status

__all__ = [
    "Run",
    "RunConfig",
    "all_keywords",
    "analyse_record",
    "asks_for_shares",
    "check_choices",
    "checkpoint_metadata",
    "class_shares",
    "config_options",
    "create",
    "execute",
    "fusion_rows",
    "list_runs",
    "method_keywords",
    "read_boundaries",
    "read_config",
    "read_inputs",
    "read_run",
    "read_status",
]
