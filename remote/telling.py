"""What a run says of itself while it goes on: progress.json once a second, a line a minute per dataset in work."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from remote import figures
from remote.admission import Admission, Track
from remote.attempts import Attempts
from remote.gate import Gate
from remote.layout import Layout
from remote.options import Budget
from remote.progress import write_progress
from remote.runlog import RunLog, errors_line
from remote.tokenizing import Tokenizing
from remote.work import Work


class Telling:
    """Reads the state of a run and writes it down; changes nothing."""

    def __init__(
        self,
        layout: Layout,
        run_id: str,
        works: Mapping[str, Work],
        admission: Admission,
        attempts: Attempts,
        gate: Gate,
        tokenizing: Tokenizing,
        log: RunLog,
    ) -> None:
        self._layout = layout
        self._run_id = run_id
        self._works = works
        self._admission = admission
        self._attempts = attempts
        self._gate = gate
        self._tokenizing = tokenizing
        self._log = log
        self._began_at = time.time()

    def write(self, now: float, state: str, failing: bool, budget: Budget) -> None:
        """Replace progress.json; `now` is the loop's clock, `state` one word for the run. Raises OSError."""
        rates = {folder: work.recent.tokens_s(now) for folder, work in self._works.items()}
        known = [rate for rate in rates.values() if rate is not None]
        counters = self._attempts.counters
        value: dict[str, Any] = {
            "run": self._run_id,
            "pid": os.getpid(),
            "at": round(time.time(), 3),
            "since": self._began_at,
            "state": state,
            "paused": self._admission.paused,
            "in_flight": len(self._attempts.now),
            "places": self._admission.in_flight,
            "concurrency": self._admission.concurrency,
            "in_work": self.in_work(),
            "answers": sum(work.kept for work in self._works.values()),
            "rate_tokens_s": sum(known) if known else None,
            "request_tokens_s": self._admission.speed_tokens_s,
            "retries": counters.retries,
            "errors": dict(counters.errors),
            "stripped": counters.stripped,
            "engine_state": "failing" if failing and self._gate.is_open else self._gate.state,
            "token_budget": {"default": budget.default, "per": dict(budget.per)},
            "tokenizing": self._tokenizing.folder,
            "lost_if_stopped_tokens": self.decoded_now(now),
            "datasets": {folder: self._row(work, rates[folder], now) for folder, work in self._works.items()},
        }
        write_progress(self._layout, value)

    def in_work(self) -> list[str]:
        """The datasets that have begun and are not finished, and the one being tokenized."""
        working = [folder for folder, work in self._works.items() if work.begun and not work.closed]
        tokenizing = self._tokenizing.folder
        return [*working, *([tokenizing] if tokenizing and tokenizing not in working else [])]

    def decoded_now(self, now: float) -> int:
        """About how many tokens of answers in flight the engine has decoded: what a stop at this moment would lose."""
        speed = self._admission.speed_tokens_s or 0.0
        return round(
            sum(min(attempt.limit, (now - attempt.sent_at) * speed) for attempt in self._attempts.now.values())
        )

    def _row(self, work: Work, rate: float | None, now: float) -> dict[str, Any]:
        track = self._admission.tracks[work.plan.folder]
        return {
            "tokens": track.tokens,
            "budget": track.budget,
            "answered": work.answered,
            "kept": work.kept,
            "in_flight": len(track.in_flight),
            "left": track.left,
            "expected_tokens": round(self._admission.expected_tokens(track, now)),
            "rate_tokens_s": rate,
            "last_answer_at": work.last_answer_at,
            "set_aside": {reason: count for reason, count in work.set_aside.items() if count},
            "tokenizing": self._tokenizing.folder == work.plan.folder,
            "finished": work.closed,
        }

    def minute(self, now: float) -> None:
        """The line of every dataset in work."""
        for folder, work in self._works.items():
            if work.begun and not work.closed:
                track = self._admission.tracks[folder]
                self._log.say(_dataset_line(track, work.answered, work.recent.tokens_s(now)), folder)

    def end(self, stopped: bool) -> None:
        """The last lines of a run: what each dataset came to, and the whole."""
        for folder, work in self._works.items():
            if not work.closed:
                self._log.say(end_line(self._admission.tracks[folder], work, stopped), folder)
        counters = self._attempts.counters
        kept = sum(work.kept for work in self._works.values())
        parts = [f"{figures.plural(kept, 'answer')} kept in {figures.duration(time.time() - self._began_at)}"]
        if counters.retries:
            parts.append(f"{figures.plural(counters.retries, 'attempt')} repeated ({errors_line(counters.errors)})")
        if counters.stripped:
            parts.append(
                f"{figures.plural(counters.stripped, 'answer')} began with the prompt's last ids, which were taken off:"
                " a fault of SGLang 0.5.1 to 0.5.4, update the engine"
            )
        self._log.say("; ".join(parts))


def _dataset_line(track: Track, answered: int, rate_tokens_s: float | None) -> str:
    budget = track.budget
    share = f" of {figures.tokens(budget)} ({figures.percent(track.tokens, budget)})" if budget else ""
    rate = figures.rate(rate_tokens_s) if rate_tokens_s is not None else "no rate yet"
    return (
        f"{figures.tokens(track.tokens)} tokens{share}, {answered:,} answers, {len(track.in_flight)} in flight, {rate}"
    )


def end_line(track: Track, work: Work, stopped: bool) -> str:
    """What one dataset came to, and what fell short and why."""
    parts = [f"{figures.tokens(track.tokens)} tokens, {figures.plural(work.kept, 'new answer')}"]
    if work.trouble:
        parts.append(f"stopped: {work.trouble}")
    short = max(0, track.budget - track.tokens)
    if short:
        why = "when the run ended" if stopped or work.trouble else "no prompt is left"
        parts.append(f"{figures.tokens(short)} short of its budget: {why}")
    elif track.budget:
        parts.append(f"budget of {figures.tokens(track.budget)} met")
    aside = ", ".join(f"{count:,} {reason}" for reason, count in sorted(work.set_aside.items()) if count)
    if aside:
        parts.append(f"set aside: {aside} (see .eagle3/failed.jsonl; --retry-failed tries them again)")
    return "; ".join(parts)
