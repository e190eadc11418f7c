"""One answer to one training row: prompt ids, then the output ids untouched, and the loss mask over both.

The output ids are carried over as the text they are in raw_responses.jsonl, never through Python integers: that makes
a rebuild three times as fast, and leaves no place where an id could change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

_HEAD = re.compile(
    rb'[ \t]*\{[ \t]*"sample_id"[ \t]*:[ \t]*(?:"(?:[^"\\]|\\.)*"|-?\d+)[ \t]*,[ \t]*"output_ids"[ \t]*:[ \t]*\['
)
_SPACE = b" \t\r\n"


def output_text(line: bytes, ids: Sequence[int]) -> bytes:
    """The output ids of a usable record as compact text, `1,2,3`.

    `ids` are what the records' judge found in `line`. Where the record does not begin as we write it (`sample_id`,
    `output_ids`), the text is made from them.
    """
    head = _HEAD.match(line)
    if head:
        # The list is flat and all numbers (the record was judged), so the next bracket closes it.
        text = line[head.end() : line.index(b"]", head.end())].translate(None, _SPACE)
        if b"-" not in text:
            return text
    return number_text(ids)


def _number_text() -> Callable[[Sequence[int]], bytes]:
    """Ten times as fast where the container has msgspec, and the same bytes."""
    try:
        from msgspec.json import encode
    except ImportError:
        return lambda ids: ",".join(map(str, ids)).encode()
    return lambda ids: encode(ids)[1:-1]


number_text = _number_text()
"""Ids as compact text, `1,2,3`."""


def row_line(sample_id: str | int, prompt_ids: Sequence[int], outputs: bytes, tokens: int) -> bytes:
    """The row as it is written, newline included.

    `outputs` is the `output_text` of `tokens` ids. The mask is 0 on the prompt and 1 on the answer, unshifted.
    """
    prompt = number_text(prompt_ids)
    zeros = b"0," * len(prompt_ids)
    return b'{"sample_id":%b,"input_ids":[%b%b%b],"loss_mask":[%b%b]}\n' % (
        json.dumps(sample_id).encode(),
        prompt,
        b"," if prompt else b"",
        outputs,
        zeros,
        (b"1," * tokens)[:-1],
    )
