"""Rebuild tokenized_data.jsonl from the prompts and the raw responses, and never lose good rows to it.

The rows are written beside the present file, compared with it while they are written, and swapped in only when
nothing, or nothing much, would be lost. The replaced file is kept.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote import figures
from remote.compare_rows import Compared, Comparison
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout, dataset_id, fsync_folder
from remote.model import ModelFacts, read_model
from remote.options import Options
from remote.release import release
from remote.render import LazyTokenizer, Tokenizer
from remote.row_stream import RowStream
from remote.text import clean
from remote.tokenization import (
    WOULD_LOSE,
    TokenizationFacts,
    accepts_loss,
    options_that_matter,
    stamps_of,
    tokenization_of,
)
from remote.tokenized_meta import SURVIVE_AT, Meta, meta_path, read_meta, read_refused, stamp, write_meta, write_refused

LOSS_SHARE = 0.01
"""A rebuild that would lose a larger share of the present rows is refused."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True)
class Outcome:
    """What became of one dataset.

    `result`: `written` (there was no file), `replaced`, `identical` (the present file was left as it is), `up-to-date`
    (nothing was read), `skipped` (`--retokenize never`), `nothing` (no answer to tokenize), `refused`
    (`rebuild-would-lose`), `failed`; `error` says what to do about the last two. `previous` is where the replaced file
    is kept, relative to the root.
    """

    folder: str
    result: str
    detail: str = ""
    meta: Meta | None = None
    previous: str | None = None
    error: OperatorError | None = None

    def sentence(self) -> str:
        """One line for a person, without the folder's name."""
        if self.error is not None:
            return f"{self.result}: {self.error}"
        parts = [self.result]
        meta = self.meta
        if meta is not None and self.result != "nothing":
            parts.append(f"{figures.plural(meta.rows, 'row')}, {figures.tokens(meta.loss_tokens)} loss tokens")
            parts += [f"{number:,} left out: {reason}" for reason, number in sorted(meta.reasons.items())]
            if meta.checked.get("count"):
                parts.append(f"{figures.plural(meta.checked['count'], 'prompt')} checked by their count alone")
        if self.detail and self.detail != self.result:
            parts.append(clean(self.detail, 300))
        if self.previous:
            parts.append(f"the replaced file is {clean(self.previous)}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the samples left out are in the meta file."""
        meta = self.meta
        return {
            "ok": self.error is None,
            "result": self.result,
            "detail": self.sentence(),
            "rows": meta.rows if meta else None,
            "loss_tokens": meta.loss_tokens if meta else None,
            "left_out": meta.reasons if meta else {},
            "checked": dict(meta.checked) if meta else {},
            "comparison": dict(meta.comparison) if meta else {},
            "previous": self.previous,
            "took_s": meta.took_s if meta else None,
            "error": self.error.to_json() if self.error else None,
        }


def retokenize_dataset(
    layout: Layout,
    folder: str,
    options: Options,
    tokenizer: Tokenizer | LazyTokenizer,
    model: ModelFacts | None = None,
) -> Outcome:
    """Bring one dataset's rows up to date. The caller holds the run's lock.

    Raises OperatorError: `read-only`; `no-prompts`; `disk` (exit code 5) and `unreadable`, with nothing changed; `moved`
    when an input was replaced while it was read. Rows that would be lost are no exception but the outcome `refused`.
    """
    if options.read_only:
        raise OperatorError("read-only", "retokenize changes files, and --read-only is on", "leave --read-only out")
    own = layout.folder(folder)
    try:
        facts = _facts(layout, folder)
        meta = read_meta(layout, folder)
        decision = tokenization_of(facts, meta, tokenizer.fingerprint if facts.usable else None, options)
        if decision.decision != "rebuild":
            result = {"up-to-date": "up-to-date", "never": "skipped", WOULD_LOSE: "refused"}.get(
                decision.reason, "nothing"
            )
            error = OperatorError(WOULD_LOSE, f"{clean(folder)}: {decision.evidence}") if result == "refused" else None
            return Outcome(folder, result, decision.evidence, meta, error=error)
        if facts.stamps[PROMPTS] is None:
            raise OperatorError(
                "no-prompts", f"{clean(own / PROMPTS)} is not there, so no answer can be tokenized", "put it back"
            )
        loaded = tokenizer.load() if isinstance(tokenizer, LazyTokenizer) else tokenizer
        return _Rebuild(layout, folder, options, loaded, model or read_model(options.model_path)).run()
    except OSError as error:
        raise _file_error(error, own) from None


def _facts(layout: Layout, folder: str) -> TokenizationFacts:
    """What stats alone tell: a file with bytes in it stands for usable answers until it is read."""
    stamps = stamps_of(layout, folder)
    responses = stamps[RESPONSES]
    return TokenizationFacts(
        folder,
        usable=responses.size if responses else 0,
        rows=None,
        stamps=stamps,
        pretokenized=responses is None and stamps[PROMPTS] is None and stamps[TOKENIZED] is not None,
        refused=read_refused(layout, folder),
    )


class _Rebuild:
    """One rebuild of one dataset."""

    def __init__(self, layout: Layout, folder: str, options: Options, tokenizer: Tokenizer, model: ModelFacts) -> None:
        self._layout = layout
        self._folder = folder
        self._own = layout.folder(folder)
        # Where the file is a link to another disk, the link stays and its target is replaced.
        self._target = (self._own / TOKENIZED).resolve()
        self._options = options
        self._tokenizer = tokenizer
        self._stream = RowStream(layout, folder, options, tokenizer, model)

    def run(self) -> Outcome:
        started = time.monotonic()
        self._remove_unfinished()
        beside = self._target.with_name(f".{self._target.name}.{os.getpid()}.tmp")
        try:
            with Comparison(self._target) as comparison, beside.open("xb") as out:
                for key, line in self._stream.rows():
                    out.write(line)
                    comparison.row(key, line)
                compared = comparison.finish()
                out.flush()
                os.fsync(out.fileno())
            self._stream.check_inputs()
            return self._settle(beside, compared, self._meta(compared, time.monotonic() - started))
        finally:
            beside.unlink(missing_ok=True)

    def _remove_unfinished(self) -> None:
        """Files of rebuilds that were killed: we hold the lock, so nobody writes them any more."""
        meta = meta_path(self._layout, self._folder)
        for path in (self._target, meta):
            for unfinished in path.parent.glob(f".{path.name}.*.tmp"):
                unfinished.unlink(missing_ok=True)

    def _meta(self, compared: Compared, took_s: float) -> Meta:
        tally = self._stream.tally
        return Meta(
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            fingerprint=self._tokenizer.fingerprint,
            options=options_that_matter(self._options),
            inputs=self._stream.inputs,
            output=None,
            rows=tally.rows,
            loss_tokens=tally.loss_tokens,
            row_tokens=tally.row_tokens,
            longest=tally.longest,
            survive={str(limit): tally.survive[limit] for limit in SURVIVE_AT},
            checked={name: tally.checked[name] for name in ("digest", "count", "none")},
            left_out=tuple(tally.left_out),
            passed_over=tuple(tally.passed_over),
            passed_over_by_kind=dict(tally.passed_over_by_kind),
            comparison=compared.to_json(),
            took_s=round(took_s, 3),
            release=release(),
        )

    def _settle(self, beside: Path, compared: Compared, meta: Meta) -> Outcome:
        """Swap the new file in, or leave the present one, or refuse."""
        if compared.verdict == "identical":
            return self._finish("identical", compared, meta)
        if compared.verdict == "new" and not meta.rows:
            return self._finish("nothing", compared, meta)
        if compared.lost > LOSS_SHARE * compared.present_rows and not accepts_loss(self._options, self._folder):
            write_refused(self._layout, self._folder, replace(meta, output=stamp(self._target)))
            return Outcome(self._folder, "refused", compared.sentence(), meta, None, self._refusal(compared, meta))
        previous = None
        if compared.verdict == "differs":
            _give_same_owner(self._target, beside)
            previous = self._keep_previous()
        os.replace(beside, self._target)
        return self._finish("written" if compared.verdict == "new" else "replaced", compared, meta, previous)

    def _finish(self, result: str, compared: Compared, meta: Meta, previous: str | None = None) -> Outcome:
        """The rows are in place: make that durable, and write how they were made."""
        try:
            fsync_folder(self._target.parent)
            meta = replace(meta, output=stamp(self._target))
            write_meta(self._layout, self._folder, meta)
            write_refused(self._layout, self._folder, None)
        except OSError as error:
            raise OperatorError(
                "disk",
                f"{clean(self._folder)}: the rows are in place ({result}), but not the record of how they were made"
                f" ({clean(error.filename or self._own)}: {error.strerror})",
                "make room or repair the disk, then retokenize again",
                ExitCode.DISK,
            ) from None
        return Outcome(self._folder, result, compared.sentence(), meta, previous)

    def _refusal(self, compared: Compared, meta: Meta) -> OperatorError:
        because = meta.why_fewer
        return OperatorError(
            WOULD_LOSE,
            f"{clean(self._folder)}: rebuilding would lose {figures.plural(compared.lost, 'row')} of"
            f" {compared.present_rows:,}{f' ({because})' if because else ''}; the present file is as it was",
            f"check --model-path and the prompts, or take the loss with --accept {WOULD_LOSE}:{dataset_id(self._folder)}",
        )

    def _keep_previous(self) -> str:
        """Keep the file that will be replaced, and its meta file, under `.eagle3/previous/`."""
        self._layout.make_state()
        kept = self._layout.previous
        kept.mkdir(exist_ok=True)
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name, number = f"{self._folder}.{moment}", 1
        while (kept / f"{name}.{TOKENIZED}").exists():
            number += 1
            name = f"{self._folder}.{moment}-{number}"
        place = kept / f"{name}.{TOKENIZED}"
        _link_or_copy(self._target, place)
        meta = meta_path(self._layout, self._folder)
        if meta.exists():
            _link_or_copy(meta, kept / f"{name}.{meta.name}")
        fsync_folder(kept)
        return str(place.relative_to(self._layout.root))


def _give_same_owner(present: Path, new: Path) -> None:
    """Mode, and owner where we may, of the file that is replaced: who could read it before can read it after."""
    shutil.copymode(present, new)
    facts = present.stat()
    with contextlib.suppress(PermissionError):
        os.chown(new, facts.st_uid, facts.st_gid)


def _link_or_copy(source: Path, place: Path) -> None:
    """Keep a file under another name: a hard link where the file system has them, else a copy on disk."""
    try:
        os.link(source, place)
        return
    except OSError as error:
        if error.errno in _DISK:
            raise
    with source.open("rb") as old, place.open("xb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())


def _file_error(error: OSError, own: Path) -> OperatorError:
    where = clean(error.filename or own)
    if error.errno in _DISK:
        return OperatorError(
            "disk",
            f"cannot write {where}: {error.strerror}; the present rows are as they were",
            "make room or repair the disk, then retokenize again",
            ExitCode.DISK,
        )
    return OperatorError(
        "unreadable", f"{where}: {error.strerror or error}", "make it readable and writable on the container"
    )
