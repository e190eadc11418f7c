"""The sampling parameters that go with every request: all explicit, for the engine's own defaults are other ones.

SGLang's `/generate` ignores the model's generation_config.json and stops at 128 tokens when it is not told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.model import ModelFacts, Sampling

NEUTRAL: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}
"""What the engine does when a parameter is not given: said explicitly, so that no server's flag changes it."""
_OURS = {"max_new_tokens": "--max-new-tokens", "n": "nothing: one answer a prompt"}


def explicit_sampling(sampling: Sampling, model: ModelFacts) -> dict[str, Any]:
    """The request's `sampling_params` without `max_new_tokens`: given values over neutral ones, and the model's ends of
    sequence as stop tokens. Raises OperatorError for a parameter that is ours to set."""
    for key, instead in _OURS.items():
        if key in sampling.values:
            raise OperatorError("usage", f"--sampling may not set {key}", f"use {instead}", ExitCode.USAGE)
    values = {**NEUTRAL, **sampling.values}
    if model.eos_ids and "stop_token_ids" not in values:
        values["stop_token_ids"] = sorted(model.eos_ids)
    return values
