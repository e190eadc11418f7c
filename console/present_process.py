"""What runs on the container, in a few lines: our generator, processes that are not ours, or what became of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rich.text import Text

from console import text
from console.settling import settled
from console.view import View
from widgets.card_value import CardValue
from widgets.tones import ACT, DIM, GOOD, LOOK, NOTE, STRONG, UNKNOWN

if TYPE_CHECKING:
    from console.model import Generator, Writer

_VERDICTS = {
    "never-started": ("○", "nothing runs, nothing was started here yet", DIM),
    "starting": ("◌", "starting", NOTE),
    "running": ("●", "running", GOOD),
    "running-unsupervised": ("●", "running without its supervisor", LOOK),
    "held-by-stray": ("■", "the lock is held by a process that is not ours", ACT),
    "exited": ("○", "ended", ""),
    "lost": ("✗", "lost: it is gone and nobody knows why", ACT),
    "unknown": ("?", "not known", DIM),
}


def process_card(view: View, lines: int = 4) -> CardValue:
    """The card of the main screen, at most `lines` lines."""
    return CardValue("generator", tuple(process_lines(view, lines)), not view.link.fresh)


def process_lines(view: View, limit: int = 4) -> list[Text]:
    """What runs, most important first: a process that is not ours comes before our own."""
    snapshot = view.snapshot
    if snapshot is None:
        return [Text("nothing is known of the container yet", DIM)]
    out: list[Text] = []
    generator = snapshot.generator
    if generator.running:
        out += _generator_lines(view, generator)
        if snapshot.writers:
            out.insert(1, _second_writer(snapshot.writers))
    elif snapshot.writers:
        out += _writer_lines(view, snapshot.writers[0], len(snapshot.writers) - 1)
    else:
        out += _generator_lines(view, generator)
    return out[:limit]


_HOW_MUCH = ("--token-budget", "--max-samples", "--datasets")


def flags(argv: Sequence[str]) -> str:
    """A command's flags without the interpreter and the script, its limits first: `--max-samples 7000 --root …`."""
    start = next((index for index, word in enumerate(argv) if word.startswith("-") and index), 2)
    groups: list[list[str]] = []
    for word in argv[start:]:
        if word.startswith("-") or not groups:
            groups.append([])
        groups[-1].append(_brief(word))
    # Where there is not room for all, those that say how much it will do are seen.
    groups.sort(key=lambda group: group[0].partition("=")[0] not in _HOW_MUCH)
    return " ".join(word for group in groups for word in group)


def _brief(word: str) -> str:
    """A long path by its last part: what it is called matters here, not where it lies."""
    return f"…/{PurePosixPath(word).name}" if len(word) > 24 and "/" in word else word


def script_name(writer: Writer) -> str:
    """The script's own name, without its folder; the program's where there is no script."""
    path = writer.script or next(iter(writer.argv), "")
    return PurePosixPath(path).name or UNKNOWN


def uptime(view: View, since: float | None) -> str:
    """`up 5 h 02 m`."""
    age_s = view.age_s(since)
    return f"up {text.duration(age_s)}" if age_s is not None else "up since –"


def _line(*parts: tuple[str, str] | str) -> Text:
    out = Text(no_wrap=True)
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        if words:
            out.append("  " if out else "").append(words, style)
    return out


def _writer_lines(view: View, writer: Writer, others: int) -> list[Text]:
    first = _line(
        ("■ not ours", ACT),
        (f"pid {writer.pid}", STRONG),
        uptime(view, writer.since),
        script_name(writer),
        (f"and {others} more", ACT) if others else "",
    )
    has_budget = writer.token_budget is not None
    second = _line("" if has_budget else ("NO --token-budget", ACT), flags(writer.argv) or "no flags")
    # Until the first plan is there, it is not known yet; that it cannot be known is another piece of news.
    pending = view.snapshot is not None and "plan" in view.snapshot.pending
    third = _line(("left alone: being reckoned …", DIM)) if pending else needless_line(writer)
    return [first, second, third, _script_line(view, writer)]


def no_log_words(view: View) -> str:
    """Why there is no log of a run to be shown."""
    if view.snapshot is None:
        return ""
    if view.snapshot.writers and not view.snapshot.generator.running:
        return "The process that runs was not launched from here: its log is not known."
    return "Nothing has been launched here yet: there is no log."


def needless_line(writer: Writer) -> Text:
    """What it would still do that nobody needs."""
    if writer.needless_tokens is None:
        return _line(("left alone: what it would still do cannot be told", LOOK))
    if writer.needless_tokens == 0:
        return _line(("left alone: no needless tokens", DIM))
    parts = [f"left alone: {text.tokens(writer.needless_tokens)} needless tokens"]
    if writer.needless_s is not None:
        parts.append(text.duration(writer.needless_s))
    if writer.needless_gpu_h is not None:
        parts.append(text.hours(writer.needless_gpu_h, "GPU-h"))
    if writer.needless_cost is not None:
        parts.append(f"cost {text.significant(writer.needless_cost)}")
    return _line((", ".join(parts), ACT))


def _script_line(view: View, writer: Writer) -> Text:
    knows = {True: "yes", False: "no", None: UNKNOWN}[writer.knows_token_budget]
    parent = writer.parent
    respawn = f"pid {parent.pid} starts it again" if parent is not None and parent.respawns else ""
    digest = f"digest {writer.script_digest[:8]}" if writer.script_digest else ""
    age = f"{text.age(view.age_s(writer.script_mtime))} old" if writer.script_mtime is not None else ""
    return _line((f"script knows --token-budget: {knows}", DIM), (digest, DIM), (age, DIM), (respawn, ACT))


def _second_writer(writers: Sequence[Writer]) -> Text:
    pids = ", ".join(str(writer.pid) for writer in writers[:4])
    return _line((f"■ ALSO WRITING, not ours: pid {pids}", ACT))


def _generator_lines(view: View, generator: Generator) -> list[Text]:
    mark, words, tone = _VERDICTS.get(generator.verdict, ("?", generator.verdict, LOOK))
    if generator.paused and generator.running:
        mark, words, tone = "‖", "paused: admits nothing new", LOOK
    elif generator.draining:
        mark, words, tone = "▼", "draining: finishes what is in flight", LOOK
    pid = f"pid {generator.pid}" if generator.pid is not None and generator.running else ""
    first = _line((f"{mark} {words}", tone), (pid, STRONG), uptime(view, generator.since) if generator.running else "")
    if not generator.running:
        return [first, *_end_lines(view, generator)]
    return [first, _flags_line(view, generator), _work_line(view, generator), _trouble_line(generator)]


def _flags_line(view: View, generator: Generator) -> Text:
    budget = (f"--token-budget {generator.token_budget}", "") if generator.token_budget else ("NO --token-budget", ACT)
    release = generator.release
    snapshot = view.snapshot
    shipped = snapshot.agent.release if snapshot is not None else None
    if release is None:
        version: tuple[str, str] = ("", "")
    elif shipped is None or shipped == release:
        version = (f"version {release[:12]}", DIM)
    else:
        version = (f"version {release[:12]}, shipped {shipped[:12]}", LOOK)
    return _line(budget, version)


def _work_line(view: View, generator: Generator) -> Text:
    names = [name.split("_", 1)[0] for name in generator.in_work]
    rate = view.totals.rate_tokens_s if view.totals.rate_tokens_s is not None else generator.rate_tokens_s
    return _line(
        f"on {' '.join(names)}" if names else ("on nothing now", DIM),
        f"{text.count(generator.in_flight)} in flight",
        text.rate(rate) if rate is not None else ("rate –", DIM),
        _to_go(view, generator),
    )


def _to_go(view: View, generator: Generator) -> tuple[str, str] | str:
    if view.totals.eta_s is not None:
        return f"{text.duration(view.totals.eta_s)} to go"
    early = view.snapshot is not None and not settled(generator, view.snapshot.at)
    return ("time to go: after the first answers", DIM) if early and not generator.paused else ""


def _trouble_line(generator: Generator) -> Text:
    errors = sum(generator.errors.values())
    kinds = ", ".join(f"{kind} {text.count(number)}" for kind, number in generator.errors.items())
    return _line(
        (f"{text.count(generator.retries)} retries", LOOK if generator.retries else DIM),
        (f"{text.count(errors)} errors", LOOK if errors else DIM) if generator.errors else ("no errors", DIM),
        (kinds, LOOK) if errors else "",
        (generator.engine_state or "", DIM) if generator.engine_state not in (None, "healthy") else "",
    )


def _end_lines(view: View, generator: Generator) -> list[Text]:
    end = generator.exit
    if end is None:
        return []
    when = f"at {text.clock(end.at)}, {text.age(view.age_s(end.at))} ago" if end.at is not None else ""
    how = f"exit code {end.code}" if end.code is not None else ""
    if end.signal is not None:
        how = f"killed by signal {end.signal}"
    oom = ("out of memory", ACT) if end.oom else ("", "")
    by = f"by {end.by}" if end.by else ""
    good = end.code == 0
    out = [_line((how, GOOD if good else ACT), oom, when, by)]
    # Of a good end the word is enough; of a bad one an operator wants the sentence.
    said = end.reason if good else end.detail or end.reason
    if said:
        out.append(_line((said, DIM if good else LOOK)))
    return out
