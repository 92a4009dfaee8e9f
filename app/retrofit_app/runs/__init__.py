"""Runs on disk and the workers that write them: list, start, watch, cancel. No Streamlit, and no torch until a start.

A run's folder is named after its config's key (`runs.record_folder`), so the same work has one folder. A separate process does
the work (`retrofit_core.runs.worker`). `retrofit_core.runs.store` reports its status.

File names in a config are relative to the folder where its worker starts: the shipped parents' folder if the config names
them, so that its key is the same wherever the package is installed, else the runs folder. There, parents that a run
trains itself are in parents-KEY (the key of their `TrainConfig`, kept in training.json); runs share them.
"""

from retrofit_core.runs.store import alone
from retrofit_core.runs.worker import Busy, begin, cancel, was_asked
from retrofit_core.system.extras import library_version as library

from .listing import entries, same_work
from .records import (
    BUNDLED,
    Entry,
    bundle_facts,
    class_counts,
    home,
    own_name,
    read_entry,
    runs_folder,
    training_of,
)
from .starting import delete, run_again, start
from .words import (
    LICENCE,
    details,
    error_of,
    failure,
    label,
    labels,
    log_tail,
    networks_words,
    other_version,
    source,
    where,
    without_folders,
)
