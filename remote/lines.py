"""The two lines that an answer leaves: the record in raw_responses.jsonl, and where it came from in `.eagle3/answers/`."""

from __future__ import annotations

import json
from collections.abc import Callable

from remote.acceptance import Answer
from remote.prompts import Prompt


def _dumps_ids() -> Callable[[list[int]], str]:
    try:
        import orjson
    except ImportError:
        return lambda ids: "[" + ",".join(map(str, ids)) + "]"
    return lambda ids: orjson.dumps(ids).decode()


_ids_text = _dumps_ids()


def record_line(prompt: Prompt, answer: Answer) -> bytes:
    """The record, exactly as DESIGN §3 has it: five keys, `sample_id` as the prompt has it. With its newline."""
    head = json.dumps(prompt.sample_id, ensure_ascii=False)
    return (
        f'{{"sample_id":{head},"output_ids":{_ids_text(answer.output_ids)},"prompt_tokens":{answer.prompt_tokens},'
        f'"completion_tokens":{len(answer.output_ids)},"finish_reason":"{answer.finish}"}}\n'
    ).encode()


def answer_line(prompt: Prompt, answer: Answer, run: str, digest: str, at: float) -> bytes:
    """Its provenance: the digest of the prompt ids is what retokenizing compares. `at` in Unix seconds. With newline."""
    value = {
        "sample_id": prompt.sample_id,
        "run": run,
        "prompt_digest": digest,
        "matched": answer.matched,
        "weight_version": answer.weight_version,
        "at": round(at, 3),
    }
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
