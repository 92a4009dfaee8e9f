"""The worker processes that this server started, to be reaped when they have ended."""

import subprocess

CHILDREN: dict[int, subprocess.Popen] = {}


def exit_code(pid: int) -> int | None:
    """How a worker of this server ended (below zero: minus the signal); None while it lives and for other processes."""
    child = CHILDREN.get(pid)
    return None if child is None else child.poll()
