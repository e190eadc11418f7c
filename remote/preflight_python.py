"""Preflight checks of the Python that will run: version, libraries, tokenizer and its fingerprint."""

from __future__ import annotations

import shlex

from remote.check import BLOCKER, OK, WARNING, Check
from remote.fingerprint import Fingerprint
from remote.layout import dataset_id
from remote.preflight_look import Look
from remote.probe_python import NEEDED, OLDEST
from remote.text import clean


def python(look: Look) -> Check:
    """The interpreter starts and is new enough."""
    facts = look.python
    if facts is None:
        return Check("python", WARNING, "not looked at")
    name = clean(facts.python, 160)
    if facts.version is None:
        return Check(
            "python",
            BLOCKER,
            f"{name}: {clean(facts.error, 300)}",
            f"install what is missing: python3 -m pip install {' '.join(NEEDED)}; or --python PATH",
        )
    if not facts.new_enough:
        oldest = ".".join(map(str, OLDEST))
        return Check("python", BLOCKER, f"{name} is {facts.version}, older than {oldest}", "--python PATH")
    if facts.error:
        return Check("python", BLOCKER, f"{name} {facts.version}: {clean(facts.error, 300)}", "--python PATH")
    return Check("python", OK, f"{name} {facts.version}")


def imports(look: Look) -> Check:
    """The libraries that generate and retokenize need."""
    facts = look.python
    if facts is None or not facts.libraries:
        return Check("imports", WARNING, "not looked at: that Python does not answer")
    missing = facts.missing
    if missing:
        broken = [name for name in missing if "ModuleNotFoundError" not in facts.errors.get(name, "")]
        why = f" ({clean(facts.errors[broken[0]], 160)})" if broken else ""
        return Check(
            "imports",
            BLOCKER,
            f"{clean(facts.python, 120)} has no working {', '.join(missing)}{why}",
            f"{shlex.quote(facts.python)} -m pip install {' '.join(missing)}",
        )
    there = ", ".join(f"{name} {version}" for name, version in facts.libraries.items() if version)
    return Check("imports", OK, clean(there, 200))


def tokenizer(look: Look) -> Check:
    """The tokenizer of --model-path loads."""
    facts = look.python
    if not look.options.model_path:
        engine = look.around.engine
        served = f"; the engine serves {clean(engine.model_path, 160)}" if engine and engine.model_path else ""
        return Check("tokenizer", BLOCKER, f"no --model-path, so no prompt can be rendered{served}", "--model-path DIR")
    if facts is None or (facts.fingerprint is None and facts.tokenizer_error is None):
        return Check("tokenizer", WARNING, "not loaded: that Python does not answer or lacks transformers")
    if facts.tokenizer_error is not None:
        error = facts.tokenizer_error
        return Check("tokenizer", BLOCKER, clean(error.message, 400), clean(error.remedy, 300))
    return Check("tokenizer", OK, f"loads from {clean(look.options.model_path, 160)}")


def fingerprint(look: Look) -> Check:
    """The tokenizer is that of the last tokenization and of the last run."""
    now = look.python.fingerprint if look.python is not None else None
    now = now or look.around.fingerprint
    if now is None:
        return Check("fingerprint", WARNING, "no tokenizer to take a fingerprint of")
    changed: list[str] = []
    same: list[str] = []
    for folder, meta in sorted(look.metas.items()):
        differences = meta.fingerprint.differences(now)
        (changed if differences else same).append(
            f"{dataset_id(folder)}: {', '.join(differences)}" if differences else dataset_id(folder)
        )
    run = Fingerprint.from_json(dict(look.last_run.fingerprint)) if look.last_run else None
    if run is not None and run.differences(now):
        changed.append(f"the last run: {', '.join(run.differences(now))}")
    if changed:
        return Check(
            "fingerprint",
            WARNING,
            f"{now.digest} differs from {clean('; '.join(changed), 300)}: rows are rebuilt and compared",
        )
    if same:
        return Check("fingerprint", OK, f"{now.digest}, as {', '.join(same)} was tokenized")
    return Check("fingerprint", OK, f"{now.digest}; nothing was tokenized by this program yet")
