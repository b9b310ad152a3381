"""Third-party clients: one server in the test process, one in a process of its own, and the environments in which the
clients are installed: a temporary folder, or $CUTAWAY_TEST_CLIENTS, which is kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest

from server.conftest import smol
from server.serving import until

__all__ = ["smol"]

SCRIPTS = Path(__file__).parent / "scripts"
PACKAGES = {
    "apps": ("litellm", "langchain-openai", "instructor", "pydantic-ai-slim[openai]", "openai-agents"),
    "lm_eval": ("lm_eval[api]",),
    "node": ("openai", "@anthropic-ai/sdk"),
}
"""What shares an environment has requirements that agree."""
KEY = "client-key"
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "DO_NOT_TRACK": "1", "LOGFIRE_IGNORE_NO_CONFIG": "1",
}  # fmt: skip
"""No client tells anybody else of what it does."""


@pytest.fixture(scope="session")
def served(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `cutaway serve`, which wants KEY. Its model is called smol and has 512 tokens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "cutaway", "serve", f"smol={smollm2_path}", "--port", str(port)]
    command += ["--api-key", KEY, "--context", "512", "--contexts", "3"]
    log = tmp_path_factory.mktemp("served") / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        until(lambda: process.poll() is not None or _ready(f"http://127.0.0.1:{port}"), 120)
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Path]]]:
    """Where the clients of each kind are, installed side by side."""
    base = os.environ.get("CUTAWAY_TEST_CLIENTS")
    root = Path(base) if base else tmp_path_factory.mktemp("environments")
    with ThreadPoolExecutor(len(PACKAGES)) as threads:
        yield {kind: threads.submit(_installed, root, kind) for kind in PACKAGES}
    if not base:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def run_python(served: str, environments: dict[str, Future[Path]]) -> Callable[..., str]:
    """Runs a script of SCRIPTS where these clients are, with the URL, the key and the model as its arguments; gives
    what it prints."""

    def run(name: str, kind: str = "apps") -> str:
        python = _folder(environments, kind) / "bin" / "python"
        return _run([str(python), str(SCRIPTS / name)], served)

    return run


@pytest.fixture(scope="session")
def run_node(served: str, environments: dict[str, Future[Path]]) -> Callable[[str], str]:
    """The same with node. A script is copied to where it finds its packages."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")

    def run(name: str) -> str:
        folder = _folder(environments, "node")
        return _run(["node", shutil.copy(SCRIPTS / name, folder / name)], served)

    return run


def _run(command: list[str], served: str) -> str:
    """The model's name is the last argument. Nothing but the server is reached, as far as a proxy decides that."""
    away = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    away |= {name.lower(): value for name, value in away.items()}
    environment = os.environ | QUIET | away | {"OPENAI_API_KEY": KEY, "PYTHONFAULTHANDLER": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, served, KEY, "smol"], stdout=pipe, stderr=pipe, text=True, env=environment) as ran:
        try:
            out, err = ran.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            ran.send_signal(signal.SIGABRT)  # Python then prints where each thread stands
            out, err = ran.communicate(timeout=60)
    assert ran.returncode == 0, f"status {ran.returncode}\n{out[-2000:]}\n{err[-6000:]}"
    return out


def _folder(environments: dict[str, Future[Path]], kind: str) -> Path:
    """All are waited for: a client that runs beside an installation would be judged by how long that takes."""
    wait(environments.values())
    try:
        return environments[kind].result()
    except (subprocess.SubprocessError, OSError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()[-300:]
        pytest.skip(f"{' '.join(PACKAGES[kind])} cannot be installed: {said}")


def _installed(root: Path, kind: str) -> Path:
    """The folder that holds these packages. It has its name only once it is whole, so another run may use it."""
    digest = hashlib.sha256(json.dumps([sys.version, PACKAGES[kind]]).encode()).hexdigest()[:12]
    folder = root / f"{kind}-{digest}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=root) as name:
            partial = Path(name) / kind
            partial.mkdir()
            (_install_node if kind == "node" else _install_python)(partial, PACKAGES[kind])
            partial.rename(folder)
    return folder


def _install_python(folder: Path, packages: tuple[str, ...]) -> None:
    _quietly([sys.executable, "-m", "venv", str(folder)], folder)
    _quietly([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile", *packages], folder)


def _install_node(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    _quietly(["npm", "install", "--no-audit", "--no-fund", *packages], folder)


def _quietly(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=600)
