"""Posts from the container to the operators' phone or channel, so that a closed laptop silences nothing.

Standard library only. Three shapes: Slack's `{"text"}`, ntfy's plain text with a title, and a
JSON object for anything else. The address is often a secret in itself: it is never logged.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.masking import masked_hook
from remote.text import clean

if TYPE_CHECKING:
    from urllib.request import Request

TIMEOUT_S = 10.0
TRIES = 3
_PAUSE_S = 2.0


@dataclass(frozen=True)
class Notice:
    """What is posted; `at` in Unix seconds.

    The container posts `started`, `stalled`, `recovered` and `ended`; a watch posts an alert's
    `raised`, `worse` and `recovered`, with its level and key. Such a notice has an `id`, the same
    however often it is sent: a receiver that lost its answer can tell a repetition.
    """

    event: str
    text: str
    host: str
    root: str
    run: str
    at: float
    level: str = ""
    key: str = ""
    id: str = ""

    @property
    def title(self) -> str:
        """One line: what, where."""
        word = self.level if self.level and self.event != "recovered" else self.event
        return f"eagle3 {word} on {self.host}"

    @property
    def priority(self) -> str:
        """ntfy's word for how loud it is."""
        if self.event == "recovered":
            return "default"
        if self.level == "critical":
            return "urgent"
        return "high" if self.level or self.event in ("stalled", "ended") else "default"

    def to_json(self) -> dict[str, Any]:
        """The body of the generic shape."""
        said = {
            "event": self.event,
            "text": self.text,
            "host": self.host,
            "root": self.root,
            "run": self.run,
            "at": self.at,
        }
        return {**said, "level": self.level, "key": self.key, "id": self.id} if self.id else said


def shape_of(address: str) -> tuple[str, str]:
    """`(shape, url)` of an address: `slack`, `ntfy` or `generic`, said by a prefix or seen from the server's name."""
    for shape in ("slack", "ntfy", "generic"):
        if address.startswith(f"{shape}+"):
            return shape, address[len(shape) + 1 :]
    server = urllib.parse.urlsplit(address).hostname or ""
    if server == "hooks.slack.com":
        return "slack", address
    if server == "ntfy.sh" or server.startswith("ntfy."):
        return "ntfy", address
    return "generic", address


def request_for(address: str, notice: Notice) -> Request:
    """The request that posts a notice in the address's shape. Raises ValueError when the address is none."""
    # Here, not above: every launch imports this module, and few of them post.
    from urllib.request import Request

    shape, url = shape_of(address)
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("not an http address")
    headers = {"Idempotency-Key": notice.id} if notice.id else {}
    if shape == "ntfy":
        # A header is ASCII to be safe on every way; the text itself is UTF-8.
        title = notice.title.encode("ascii", "replace").decode()
        headers |= {"Title": title, "Priority": notice.priority, "Content-Type": "text/plain; charset=utf-8"}
        return Request(url, notice.text.encode(), headers, method="POST")
    body: dict[str, Any] = {"text": f"{notice.title}: {notice.text}"} if shape == "slack" else notice.to_json()
    return Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}, method="POST")


def post(
    addresses: Sequence[str],
    notice: Notice,
    timeout_s: float = TIMEOUT_S,
    pause: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Post to each address, with retries; returns one line for each that failed. Never raises.

    Takes at most about `TRIES` times `timeout_s` for each address. Refusals (4xx except 408 and
    429) are not retried: they would be refused again.
    """
    return [failure for address in addresses if (failure := _post_one(address, notice, timeout_s, pause))]


def _post_one(address: str, notice: Notice, timeout_s: float, pause: Callable[[float], object]) -> str | None:
    from urllib.error import HTTPError
    from urllib.request import urlopen

    why = ""
    for attempt in range(TRIES):
        if attempt:
            pause(_PAUSE_S * attempt)
        try:
            with urlopen(request_for(address, notice), timeout=timeout_s):
                return None
        except HTTPError as error:
            error.close()
            why = f"HTTP {error.code}"
            if 400 <= error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            why = clean(getattr(reason, "strerror", None) or type(reason).__name__, 80)
        except Exception as error:
            # http.client raises its own family for a server that speaks no HTTP.
            why = type(error).__name__
    return f"could not post {notice.event} to {masked_hook(shape_of(address)[1])}: {why}"
