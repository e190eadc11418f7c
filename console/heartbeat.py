"""A sign of life for a dead-man's check: an address is requested for as long as the container is seen live.

When the requests stop, the service behind the address calls somebody: because the container is
gone, the link is, this machine is, or this program hangs. None of these could call by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from console.clock import steady_s
from console.view import View
from remote.masking import masked_hook
from remote.text import clean

TIMEOUT_S = 10.0
LOOKED_WITHIN_S = 10.0
"""Views come once a second: without one for so long this program itself hangs, and must not say that it lives."""
CLOSE_DEADLINE_S = 0.5


def request(address: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """GET an address; None when it answered well, else why not, without the address. Never raises."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=timeout_s):
            return None
    except HTTPError as error:
        error.close()
        return f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return clean(getattr(reason, "strerror", None) or type(reason).__name__, 80)
    except Exception as error:
        # http.client raises its own family for a server that speaks no HTTP.
        return type(error).__name__


class Heartbeat:
    """`look(view)` with every view; a thread makes the requests, every `every_s`, the first one at once."""

    def __init__(self, address: str, every_s: float, say: Callable[[str], None]) -> None:
        self._address = address
        self._every_s = every_s
        self._say = say
        self._live = threading.Event()
        self._looked_s = 0.0
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._serve, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def look(self, view: View) -> None:
        """The latest view; returns at once."""
        self._looked_s = steady_s()
        if view.link.fresh:
            self._live.set()
        else:
            self._live.clear()

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._live.set()
        self._thread.join(CLOSE_DEADLINE_S)

    def _serve(self) -> None:
        while self._live.wait() and not self._closing.is_set():
            if steady_s() - self._looked_s < LOOKED_WITHIN_S:
                self._beat()
            self._closing.wait(self._every_s)

    def _beat(self) -> None:
        why = request(self._address)
        if why is not None and not self._failing:
            self._say(f"the heartbeat to {masked_hook(self._address)} failed: {why}; it goes on")
        elif why is None and self._failing:
            self._say(f"the heartbeat to {masked_hook(self._address)} arrives again")
        self._failing = why is not None
