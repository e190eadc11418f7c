"""The agent's methods that only look. Each takes the session and a request's parameters, and returns JSON."""

from __future__ import annotations

from typing import Any

from remote import audit, logtail
from remote.child_command import run_child
from remote.choose_python import choose_python
from remote.dataset_scan import DatasetScan
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.history import read_history
from remote.params import Params
from remote.preflight import run_preflight
from remote.probe_python import PythonFacts, probe_python
from remote.session import Session
from remote.text import clean
from remote.tokenized_meta import read_meta
from remote.writers import find_writers

MAX_LEFT_OUT = 500
MAX_AUDIT = 1000
LENGTH_BUCKET_TOKENS = 100
ROW_LIMIT_S = 100.0


def plan(session: Session, params: Params) -> dict[str, Any]:
    """`plan --json` for the given options, from the scanner's memory; processes are looked at afresh."""
    found, _, _ = session.rounds.plan(session.same_root(params.options()), find_writers(session.layout))
    return found.to_json()


def preflight(session: Session, params: Params) -> list[dict[str, str]]:
    """Every check, the slow ones included: the tokenizer is loaded in a child.

    `stopping` are the pids that will be killed before the start, `stops_generator` says that ours
    will be, `at` is the operator's clock now.
    """
    options = session.same_root(params.options())
    found, states, around = session.rounds.plan(options, find_writers(session.layout))
    checks = run_preflight(
        session.layout,
        options,
        states,
        found,
        around,
        python=_python_facts(session, params),
        operator_at=params.number("at") if "at" in params else None,
        stopping=frozenset(params.counts("stopping")),
        stops_generator=params.flag("stops_generator") is not False,
        api_key_known=session.api_key is not None or options.api_key_file is not None or "api_key" in params,
    )
    return [check.to_json() for check in checks]


def _python_facts(session: Session, params: Params) -> PythonFacts:
    options = params.options()
    try:
        facts = probe_python(choose_python(options), options)
    except OperatorError as error:
        facts = PythonFacts("python3", error=str(error))
    session.remember_python(options, facts)
    return facts


def log(session: Session, params: Params) -> dict[str, Any]:
    """A page of the run's log: its end, what is `before` or `after` a byte, or the lines that hold `search`."""
    path = session.layout.run_log
    size_bytes = params.count("bytes", logtail.PAGE_BYTES)
    before = params.count("before") if "before" in params else None
    if "search" in params:
        return logtail.search(path, params.text("search", limit=1000), before).to_json()
    if "after" in params:
        return logtail.after(path, params.count("after"), size_bytes).to_json()
    return logtail.before(path, before, size_bytes).to_json()


def dataset(session: Session, params: Params) -> dict[str, Any]:
    """One dataset in full: files, answer lengths, finish reasons, problems, and what its meta file says."""
    folder = params.text("folder", limit=255)
    scan = _scan_of(session, folder)
    meta = read_meta(session.layout, scan.folder)
    left_out = meta.left_out[:MAX_LEFT_OUT] if meta is not None else ()
    return {
        "folder": folder,
        "files": [
            {
                "name": facts.name,
                "present": facts.present,
                "size": facts.size_bytes,
                "mtime": facts.mtime_s,
                "lines": facts.lines,
                "detail": _file_detail(facts.reason, facts.tail_bytes),
            }
            for facts in scan.files
            if facts.present
        ],
        "lengths": _histogram(scan.answer_lengths()),
        "finish_reasons": {clean(name, 40): count for name, count in scan.finish_reasons.items()},
        "forms": dict(scan.forms),
        "problems": [problem.to_json() for problem in scan.problems],
        "meta": _meta_summary(meta.to_json()) if meta is not None else None,
        "left_out": [
            {"sample_id": clean(item.sample_id, 80), "reason": item.reason, "detail": clean(item.detail, 200)}
            for item in left_out
        ],
    }


def _scan_of(session: Session, folder: str) -> DatasetScan:
    try:
        return session.rounds.scan().dataset(folder)
    except KeyError:
        raise OperatorError(
            "usage", f"there is no dataset {clean(folder, 80)!r} under {session.layout.root}", "", ExitCode.USAGE
        ) from None


def _file_detail(reason: str | None, tail_bytes: int) -> str:
    if reason is not None:
        return clean(reason, 200)
    return f"{tail_bytes:,} bytes after the last newline" if tail_bytes else ""


def _histogram(lengths: list[int]) -> dict[str, Any]:
    counts: list[int] = []
    for length in lengths:
        at = length // LENGTH_BUCKET_TOKENS
        if at >= len(counts):
            counts += [0] * (at + 1 - len(counts))
        counts[at] += 1
    return {"bucket": LENGTH_BUCKET_TOKENS, "counts": counts}


def _meta_summary(meta: dict[str, Any]) -> dict[str, Any]:
    """The meta file without its long lists, which are given in part beside it."""
    return {key: value for key, value in meta.items() if key not in ("left_out", "passed_over", "fingerprint")}


def row(session: Session, params: Params) -> dict[str, Any]:
    """One training row decoded by the Python that has transformers. `row` counts from 1, as lines do."""
    options = session.same_root(params.options())
    words = ["row", "--folder", params.text("folder", limit=255), "--row", str(params.count("row", 1))]
    return run_child(choose_python(options), words, options, ROW_LIMIT_S)


def history(session: Session, params: Params) -> list[dict[str, Any]]:
    """The minutes of `history.jsonl` since a Unix time."""
    try:
        return read_history(session.layout, params.number("since", 0.0))
    except OSError as error:
        raise OperatorError("unreadable", f"cannot read {session.layout.history_jsonl}: {error.strerror}") from None


def audit_entries(session: Session, params: Params) -> list[dict[str, Any]]:
    """The last entries of the audit, newest first; `plans` keeps the whole plans in them, which are long.

    `planned` gives the newest entry alone that has a plan, with it.
    """
    if params.flag("planned"):
        planned = (entry for entry in audit.read(session.layout, MAX_AUDIT) if isinstance(entry.get("plan"), dict))
        return [entry for entry in planned if entry.get("action") in ("restart", "launch")][:1]
    entries = audit.read(session.layout, min(params.count("limit", 100), MAX_AUDIT))
    if params.flag("plans"):
        return entries
    return [{key: value for key, value in entry.items() if key != "plan"} for entry in entries]
