"""Imported by the process from which runners are forked, so that none of them pays for imports and first calls.

Nothing is trained here: a process that has computed gradients cannot be forked into others that shall.
"""

import dataclasses
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tqdm import tqdm

from retrofit_core.networks.architectures import build, parse
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import execute
from tests.experiments.tiny import MLP, fusion

# The lock of the progress bar of torch.fx would be shared by all who are forked: one that is killed with it stops the others.
tqdm.set_lock(threading.RLock())
tqdm.monitor_interval = 0
torch.set_num_threads(1)
with TemporaryDirectory() as folder:
    files = [str(Path(folder, f"{index}.safetensors")) for index in range(2)]
    for index, file in enumerate(files):
        save_model(build(parse(MLP), seed=index), file)
    execute(dataclasses.replace(fusion().run, models=tuple(files), data="digits", fusion_from="iid"), None)
