"""`retrofit app` as a process: it becomes its server."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

pytestmark = pytest.mark.slow

PATIENCE = 300.0  # seconds: a shared machine may be slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@pytest.mark.parametrize(
    "name", ["SIGTERM", *(pytest.param(name, marks=pytest.mark.long) for name in ("SIGINT", "SIGHUP"))]
)
def test_ending_the_command_ends_its_server(tmp_path, name):
    port = free_port()
    command = [sys.executable, "-m", "retrofit_core", "app", "--port", str(port), "--no-browser"]
    process = psutil.Popen(
        [*command, "--runs", str(tmp_path / "runs")],
        stdout=subprocess.DEVNULL,
        # tests that run under `nohup` hand on that the signal does nothing, and the command leaves it so
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(port):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(process.pid, getattr(signal, name))
        process.wait(PATIENCE)
        assert not answers(port)
    finally:
        for each in (*_children(process), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_a_refused_websocket_asks_no_other_host(tmp_path):
    """Streamlit would ask one for this machine's address, to compare it with the origin that it refuses."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as outside:
        proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
        command = [sys.executable, "-m", "retrofit_core", "app", "--port", str(port), "--no-browser"]
        environment = {**os.environ, "http_proxy": proxy, "https_proxy": proxy, "no_proxy": "127.0.0.1"}
        process = psutil.Popen([*command, "--runs", str(tmp_path)], stdout=subprocess.DEVNULL, env=environment)
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(port):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            key = {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": "http://other.example"}
            connection.request("GET", "/_stcore/stream", headers={**upgrade, **key})
            assert connection.getresponse().status == 403
            outside.setblocking(False)
            with pytest.raises(BlockingIOError):
                outside.accept()
        finally:
            for each in (*_children(process), process):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait(PATIENCE)


def _children(process):
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []
