"""The prompt digests that were recorded with the answers: `.eagle3/answers/FOLDER.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remote.render import prompt_digest


@dataclass
class RecordedPrompts:
    """Sample id (as a string) to the digest of the prompt ids that its answer was made from.

    `several` holds the samples that were answered more than once from different prompts: for those each recorded
    digest is possible, and the number of prompt tokens has to agree too.
    """

    digests: dict[str, str] = field(default_factory=dict)
    several: dict[str, set[str]] = field(default_factory=dict)
    size: int = 0
    """Bytes of the sidecar that were read."""

    def add(self, key: str, digest: str) -> None:
        """Note one line of the sidecar."""
        known = self.digests.setdefault(key, digest)
        if known != digest:
            self.several.setdefault(key, {known}).add(digest)

    def check(self, key: str, ids: Sequence[int], same_count: bool | None) -> bool | None:
        """Whether these prompt ids are the recorded ones; None where nothing was recorded.

        `same_count` says whether the number of prompt tokens agrees (None: the record has none).
        """
        known = self.digests.get(key)
        if known is None:
            return None
        if key in self.several:
            return prompt_digest(ids) in self.several[key] and same_count is not False
        return known == prompt_digest(ids)


def read_recorded(path: Path) -> RecordedPrompts:
    """Read a sidecar; a torn or strange line is skipped, for then the token count decides. Raises OSError but for absence."""
    found = RecordedPrompts()
    try:
        source = path.open("rb")
    except FileNotFoundError:
        return found
    with source:
        for line in source:
            found.size += len(line)
            try:
                value = json.loads(line)
                key, digest = value["sample_id"], value["prompt_digest"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if isinstance(key, (str, int)) and not isinstance(key, bool) and isinstance(digest, str):
                found.add(str(key), digest)
    return found
