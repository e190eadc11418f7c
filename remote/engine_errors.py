"""What can go wrong between a prompt and its answer, by what follows from it."""

from __future__ import annotations


class EngineError(Exception):
    """A request that brought no answer: `kind` is a short stable name that is counted, `detail` one clear sentence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Permanent(EngineError):
    """This prompt can never be answered: it is set aside at once."""


class Retryable(EngineError):
    """Another attempt may succeed; `uses_try` when the prompt itself may be the reason."""

    def __init__(self, kind: str, detail: str, uses_try: bool) -> None:
        super().__init__(kind, detail)
        self.uses_try = uses_try


class ContextLimit(EngineError):
    """The engine allows fewer tokens in all than were asked for: ask again for fewer. `context_tokens` is its limit."""

    def __init__(self, detail: str, context_tokens: int) -> None:
        super().__init__("context", detail)
        self.context_tokens = context_tokens


class EngineDown(EngineError):
    """Nobody listens, or the connection broke. `in_flight` when the engine had the request when that happened."""

    def __init__(self, detail: str, in_flight: bool) -> None:
        super().__init__("connection-lost" if in_flight else "engine-down", detail)
        self.in_flight = in_flight


class WorkerLost(EngineError):
    """A router lost the engine that it had given the request to, or could not reach it. `worker` is that engine's address,
    None when the router does not say."""

    def __init__(self, detail: str, worker: str | None) -> None:
        super().__init__("worker-lost", detail)
        self.worker = worker


class Refused(EngineError):
    """The engine refuses for good, whatever the prompt: wrong key, wrong path, another model."""
