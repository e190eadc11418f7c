"""From the agent's JSON to `console.model`: lenient, total, and with a note for everything that was not understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from console.lenient import Fields
from console.model import (
    Ack,
    Agent,
    AuditEntry,
    Dataset,
    Decision,
    Disk,
    Engine,
    Exit,
    Generator,
    Gpu,
    Gpus,
    Hold,
    Host,
    Lock,
    Log,
    Parent,
    Problem,
    Schema,
    Snapshot,
    Writer,
)
from remote.layout import dataset_id, dataset_title
from remote.text import clean

T = TypeVar("T")
FOLDER_LIMIT = 120


def read_snapshot(value: Any, before: tuple[Mapping[str, Any], Snapshot] | None = None) -> Snapshot:
    """A snapshot from whatever the agent sent. Never raises: what has a wrong type is unknown and noted.

    `before` is an earlier value with its snapshot: parts that are the very same objects in both,
    as a merge patch leaves them, are taken over instead of being read again.
    """
    notes: list[str] = []
    top = Fields(value, "snapshot", notes)
    # Notes belong to a whole snapshot: one that has any is read afresh, so that none is lost.
    earlier, known = before if before is not None and not before[1].misread else ({}, None)

    def part(key: str, read: Callable[[], T]) -> T:
        same = known is not None and top.raw(key) is not None and top.raw(key) is earlier.get(key)
        return getattr(known, key) if same else read()

    rows = {row.folder: row for row in known.datasets} if known is not None else {}
    earlier_rows = earlier.get("datasets") if known is not None else None

    def dataset(folder: str, row: Fields) -> Dataset:
        found = rows.get(folder)
        if found is not None and isinstance(earlier_rows, dict) and row.is_object(earlier_rows.get(folder)):
            return found
        return _dataset(folder, row)

    made = Snapshot(
        seq=top.integer("seq") or 0,
        at=top.number("at") or 0.0,
        root=top.text("root", 1000) or "",
        host=part("host", lambda: _host(top.child("host"))),
        agent=part("agent", lambda: _agent(top.child("agent"))),
        datasets=part("datasets", lambda: tuple(sorted(top.members("datasets", dataset), key=_order))),
        generator=part("generator", lambda: _generator(top.child("generator"))),
        writers=part("writers", lambda: top.children("writers", _writer, 100)),
        engine=part("engine", lambda: _engine(top.child("engine"))),
        gpus=part("gpus", lambda: _gpus(top.child("gpus"))),
        disk=part("disk", lambda: _disk(top.child("disk"))),
        lock=part("lock", lambda: _lock(top.child("lock"))),
        hold=part("hold", lambda: _hold(top.child("hold"))),
        acks=part("acks", lambda: top.members("acks", _ack, 1000)),
        audit=part("audit", lambda: top.children("audit", _audit_entry, 1000)),
        log=part("log", lambda: _log(top.child("log"))),
        problems=top.texts("problems"),
        pending=top.texts("pending"),
    )
    # The notes are complete only once everything has been read.
    return replace(made, misread=tuple(notes)) if notes else made


def _order(row: Dataset) -> tuple[int, str]:
    return (row.order if row.order is not None else 1_000_000, row.folder)


def _dataset(folder: str, row: Fields) -> Dataset:
    schema = _schema(row.child("schema"))
    answered = row.count("answered")
    return Dataset(
        folder=clean(folder, FOLDER_LIMIT),
        id=row.text("id", 60) or clean(dataset_id(folder), 60),
        title=row.text("title", 60) or clean(dataset_title(folder), 60),
        kind=row.text("kind", 40),
        state=row.text("state", 40),
        order=row.count("order"),
        prompts=row.count("prompts"),
        responses=row.count("responses"),
        tokenized=row.count("tokenized"),
        tokens=row.count("tokens"),
        budget=row.count("budget"),
        # The records that count are the answers: an agent need not send their number twice.
        answered=answered if answered is not None else schema.usable,
        prompts_left=row.count("prompts_left"),
        no_eos=row.count("no_eos"),
        trailing_assistant=row.count("trailing_assistant"),
        prompt_mismatches=row.count("prompt_mismatches"),
        sampled=row.count("sampled"),
        no_think=row.count("no_think"),
        finish_reasons=row.counts("finish_reasons"),
        schema=schema,
        inference=_decision(row.child("inference")),
        tokenization=_decision(row.child("tokenization")),
        in_work=row.flag("in_work") or False,
        in_flight=row.count("in_flight"),
        rate_tokens_s=row.number("rate_tokens_s"),
        last_answer_at=row.number("last_answer_at"),
        # Sent only where it is another moment than the last answer's.
        files_changed_at=row.number("files_changed_at") or row.number("last_answer_at"),
        growing=row.flag("growing") or False,
    )


def _schema(row: Fields) -> Schema:
    return Schema(
        valid=row.count("valid"),
        repairable=row.count("repairable"),
        unusable=row.count("unusable"),
        duplicates=row.count("duplicates"),
        orphans=row.count("orphans"),
        torn=row.count("torn"),
        problems=row.children("problems", _problem, 200),
    )


def _problem(row: Fields) -> Problem | None:
    code = row.text("code", 60)
    if code is None:
        return None
    return Problem(code, row.count("count"), row.count("line"), row.count("offset"), row.text("example") or "")


def _decision(row: Fields) -> Decision:
    return Decision(row.text("decision", 40), row.text("reason", 60))


def _generator(row: Fields) -> Generator:
    end = row.child("exit")
    return Generator(
        verdict=row.text("verdict", 40) or "unknown",
        detail=row.text("detail") or "",
        by=row.text("by", 120) or "",
        run_id=row.text("run_id", 80),
        pid=row.count("pid"),
        supervisor_pid=row.count("supervisor_pid"),
        identity=row.opaque("identity"),
        argv=row.texts("argv", most=200),
        token_budget=_budget_text(row, "token_budget"),
        since=row.number("since"),
        release=row.text("release", 80),
        in_flight=row.count("in_flight"),
        paused=row.flag("paused"),
        draining=row.flag("draining"),
        in_work=row.texts("in_work", 120),
        rate_tokens_s=row.number("rate_tokens_s"),
        answers=row.count("answers"),
        requests=row.count("requests"),
        retries=row.count("retries"),
        errors=row.counts("errors"),
        engine_state=row.text("engine_state", 80),
        progress_at=row.number("progress_at"),
        exit=_exit(end) if end.present else None,
    )


def _exit(row: Fields) -> Exit:
    return Exit(
        code=row.integer("code"),
        signal=row.integer("signal"),
        at=row.number("at"),
        reason=row.text("reason") or "",
        detail=row.text("detail") or "",
        by=row.text("by", 120) or "",
        oom=row.flag("oom"),
    )


def _budget_text(row: Fields, key: str) -> str | None:
    """A budget as text: `10000000`, or `B4=20000000`; agents may send a plain number."""
    value = row.raw(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(row.count(key)) if value >= 0 else None
    return row.text(key, 200)


def _writer(row: Fields) -> Writer | None:
    pid = row.count("pid")
    if pid is None:
        return None
    parent = row.child("parent")
    return Writer(
        pid=pid,
        identity=row.opaque("identity"),
        argv=row.texts("argv", most=200),
        files=row.texts("files", 1000, 200),
        datasets=row.texts("datasets", 120, 200),
        script=row.text("script", 1000),
        script_digest=row.text("script_digest", 80),
        script_mtime=row.number("script_mtime"),
        knows_token_budget=row.flag("knows_token_budget"),
        token_budget=_budget_text(row, "token_budget"),
        max_samples=row.count("max_samples"),
        since=row.number("since"),
        cwd=row.text("cwd", 1000),
        parent=_parent(parent) if parent.present else None,
        needless_tokens=row.count("needless_tokens"),
        needless_s=row.number("needless_s"),
        needless_gpu_h=row.number("needless_gpu_h"),
        needless_cost=row.number("needless_cost"),
        needless_by=row.counts("needless_by"),
    )


def _parent(row: Fields) -> Parent:
    return Parent(row.count("pid"), row.texts("argv", most=200), row.flag("respawns"))


def _engine(row: Fields) -> Engine:
    return Engine(
        url=row.text("url", 300),
        health=row.text("health", 40) or "unknown",
        detail=row.text("detail") or "",
        model_path=row.text("model_path", 500),
        served_name=row.text("served_name", 200),
        version=row.text("version", 80),
        weight_version=row.text("weight_version", 120),
        context_length=row.count("context_length"),
        running=row.count("running"),
        queued=row.count("queued"),
        token_usage=row.number("token_usage"),
        tokens_s=row.number("tokens_s"),
        since=row.number("since"),
        expected_model=row.flag("expected_model"),
    )


def _gpus(row: Fields) -> Gpus:
    return Gpus(row.children("rows", _gpu, 1000), row.text("detail") or "")


def _gpu(row: Fields) -> Gpu:
    return Gpu(
        index=row.count("index"),
        name=row.text("name", 80) or "",
        utilisation=row.number("utilisation"),
        memory_used_bytes=row.count("memory_used_bytes"),
        memory_total_bytes=row.count("memory_total_bytes"),
        temperature_c=row.number("temperature_c"),
        power_w=row.number("power_w"),
    )


def _disk(row: Fields) -> Disk:
    return Disk(row.count("free_bytes"), row.count("total_bytes"), row.count("free_inodes"))


def _host(row: Fields) -> Host:
    return Host(
        hostname=row.text("hostname", 120),
        boot_id=row.text("boot_id", 80),
        cpus=row.count("cpus"),
        memory_total_bytes=row.count("memory_total_bytes"),
        memory_available_bytes=row.count("memory_available_bytes"),
    )


def _agent(row: Fields) -> Agent:
    return Agent(row.text("release", 80), row.count("pid"), row.text("python", 80))


def _lock(row: Fields) -> Lock:
    holder = row.raw("holder")
    if isinstance(holder, dict):
        inner = row.child("holder")
        words = [inner.text("purpose", 60), _pid_word(inner.count("pid")), _by_word(inner.text("by", 120))]
        return Lock(row.flag("held"), ", ".join(word for word in words if word))
    return Lock(row.flag("held"), row.text("holder") or "")


def _pid_word(pid: int | None) -> str:
    return f"pid {pid}" if pid is not None else ""


def _by_word(by: str | None) -> str:
    return f"by {by}" if by else ""


def _hold(row: Fields) -> Hold | None:
    if not row.present:
        return None
    return Hold(row.text("by", 120) or "", row.text("reason") or "", row.number("at"), row.number("until"))


def _ack(key: str, row: Fields) -> Ack:
    return Ack(clean(key, 120), row.text("by", 120) or "", row.number("at"), row.text("note") or "")


def _audit_entry(row: Fields) -> AuditEntry:
    who = row.raw("who")
    if isinstance(who, dict):
        inner = row.child("who")
        name = "@".join(word for word in (inner.text("user", 80), inner.text("host", 80)) if word)
    else:
        name = row.text("who", 120) or ""
    return AuditEntry(
        at=row.number("at"),
        who=name,
        action=row.text("action", 60) or "",
        outcome=row.text("outcome", 120) or "",
        detail=row.text("detail") or "",
    )


def _log(row: Fields) -> Log:
    return Log(row.count("size"), row.texts("lines", 1000, 200))
