"""Preflight checks of the engine and the model: health, the same model, context, settings against earlier runs."""

from __future__ import annotations

import os
from pathlib import Path

from remote.check import BLOCKER, OK, WARNING, Check
from remote.masking import masked_url
from remote.model import ModelFacts
from remote.preflight_look import Look
from remote.probe import EngineFacts
from remote.text import clean


def engine(look: Look) -> Check:
    """Healthy; one that is down or loading is waited for, so it does not stop a run."""
    facts = look.around.engine
    url = clean(masked_url(look.options.engine_url), 120)
    if facts is None:
        return Check("engine", WARNING, f"{url} was not looked at")
    if facts.unauthorized:
        level = BLOCKER if look.api_key_known else WARNING
        return Check(
            "engine",
            level,
            f"{url} wants {'another' if look.api_key_known else 'an'} API key: the run would be refused",
            "--api-key-file FILE (on the container), or EAGLE3_API_KEY in the console's environment",
        )
    named = f"SGLang {clean(facts.version, 40)}" if facts.version else "the router" if facts.router else "the engine"
    if facts.health == "healthy":
        load = "" if facts.running is None else f", {facts.running} running, {facts.queued or 0} queued"
        return Check("engine", OK, f"{named} at {url} is healthy{load}")
    detail = f" ({clean(facts.detail, 160)})" if facts.detail else ""
    return Check(
        "engine",
        WARNING,
        f"{named} at {url} is {clean(facts.health, 20)}{detail}: the run waits for it",
        f"curl -sv {url}/health",
    )


def model(look: Look) -> Check:
    """The engine serves the model whose tokenizer we use: the resolved path, else the name's last part and the length."""
    facts, ours = look.around.engine, look.around.model
    if look.options.model_path and ours is None:
        why = clean(next(iter(look.around.problems), "its folder cannot be read"), 300)
        return Check("model", WARNING, f"--model-path cannot be compared with what the engine serves: {why}")
    if not look.options.model_path or ours is None:
        return Check("model", WARNING, "no --model-path to compare with what the engine serves", _suggest(facts))
    if facts is None or facts.health == "down":
        return Check("model", WARNING, "the engine is down: which model it serves cannot be compared yet")
    if not facts.model_path and not facts.served_name:
        return Check("model", WARNING, f"the engine does not say which model it serves{_router(facts)}")
    served = clean(facts.model_path or facts.served_name, 160)
    mine = clean(look.options.model_path, 160)
    difference = model_difference(look.options.model_path, ours, facts)
    if difference is None:
        return Check("model", OK, f"the engine serves {served}, whose tokenizer is used")
    return Check(
        "model",
        BLOCKER,
        f"the engine serves another model than --model-path {mine}: {difference}",
        f"--model-path {served}" if Path(served).is_dir() else "give the folder of the served model as --model-path",
    )


def model_difference(model_path: str, ours: ModelFacts, facts: EngineFacts) -> str | None:
    """What tells that the engine serves another model than `model_path`; None when nothing does (DESIGN §4)."""
    theirs = facts.model_path
    if theirs and os.path.isabs(theirs) and Path(theirs).exists() and Path(model_path).exists():
        same = os.path.realpath(theirs) == os.path.realpath(model_path)
        return None if same else f"{clean(theirs, 160)} is another folder"
    names = {_last(name) for name in (theirs, facts.served_name) if name}
    if names and not names & {_last(model_path), (ours.name or "").lower()}:
        return f"it is called {', '.join(sorted(clean(name, 80) for name in names))}"
    if facts.context_length and ours.context_length and facts.context_length != ours.context_length:
        return f"its max_model_len is {facts.context_length}, the model's context {ours.context_length}"
    return None


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1].lower()


def _router(facts: EngineFacts) -> str:
    return " (a router stands before it)" if facts.router else ""


def _suggest(facts: EngineFacts | None) -> str:
    path = facts.model_path if facts is not None else None
    return f"--model-path {clean(path, 160)}" if path and Path(path).is_dir() else "--model-path DIR"


def context(look: Look) -> Check:
    """Room for the longest answer beside the prompt."""
    facts, ours = look.around.engine, look.around.model
    lengths = [
        length
        for length in (
            facts.context_length if facts is not None else None,
            ours.context_length if ours is not None else None,
        )
        if length
    ]
    if not lengths:
        return Check("context", WARNING, "neither the engine nor the model's folder says how long the context is")
    length, limit = min(lengths), look.options.max_new_tokens
    if limit >= length:
        return Check(
            "context",
            WARNING,
            f"--max-new-tokens {limit:,} is clamped: the context is {length:,} tokens, prompt included",
            f"--max-new-tokens {max(1, length // 2)}",
        )
    return Check(
        "context", OK, f"{length:,} tokens: prompts up to {length - limit:,} keep --max-new-tokens {limit:,} whole"
    )


def settings(look: Look) -> Check:
    """Sampling, model, weights and template arguments against the last run's: a mixture is hard to undo."""
    if look.last_run is None:
        sampling = look.around.sampling
        source = f"; sampling from {clean(sampling.source, 60)}" if sampling is not None else ""
        return Check("settings", OK, f"no earlier run to compare with{source}")
    changes = sorted(
        {
            f"{change.what} {clean(change.was, 60)} -> {clean(change.now, 60)}"
            for state in look.states
            for change in state.settings_changes
        }
    )
    if changes:
        return Check("settings", WARNING, f"existing answers were made with other settings: {'; '.join(changes)}")
    return Check("settings", OK, "the settings, model and weights of the earlier runs")
