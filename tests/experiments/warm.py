"""Imported by the process from which runners are forked, so that none of them pays for imports and first calls.

Nothing is trained here: a process that has computed gradients cannot be forked into others that shall.
"""

import threading

import torch
from tqdm import tqdm

from retrofit_core import METHODS
from retrofit_core.networks.architectures import build
from tests.experiments.tiny import TABLE  # noqa: F401

# The lock of the progress bar of torch.fx would be shared by all who are forked: one that is killed with it stops the others.
tqdm.set_lock(threading.RLock())
tqdm.monitor_interval = 0
torch.set_num_threads(1)
parents = [build({"architecture": "mlp", "sizes": [6, 5, 4]}, seed=index) for index in range(2)]
METHODS["KF-Linear"](parents, torch.randn(20, 6), device="cpu")
