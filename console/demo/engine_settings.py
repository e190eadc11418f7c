"""How a stand-in engine behaves, and the versions of SGLang it can stand in for."""

from __future__ import annotations

from dataclasses import dataclass

VERSIONS = {"0.5.3": "0.5.3.post3", "0.5.9": "0.5.9", "0.5.23": "0.5.23"}
"""What `--emulate` takes, and the version that such an engine reports."""


@dataclass(frozen=True)
class EngineSettings:
    """How a stand-in engine behaves. Speeds are in tokens a second, `health_s` is what /health takes."""

    model_path: str = "stand-in"
    served_name: str | None = None
    seed: int = 1
    mean_tokens: float = 1_500.0
    sigma: float = 0.7
    request_tokens_s: float = 80.0
    batch_tokens_s: float = 4_000.0
    max_running: int = 256
    max_queued: int | None = None
    context_length: int = 32_768
    api_key: str | None = None
    emulate: str = "0.5.9"
    metrics: bool = True
    health_s: float = 1.0
    load_s: float = 0.0
    weight_version: str = "default"
