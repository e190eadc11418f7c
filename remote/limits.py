"""How many tokens an answer may have: the run's limit, clamped to what the context leaves beside the prompt."""

from __future__ import annotations

_REFUSED_AT = 1
"""SGLang refuses a prompt and a limit that together reach its context (seen on 0.5.9), not only what exceeds it."""


class Limits:
    """The context is the smallest that anybody told: the model's folder, the engine, or an error of the engine.

    `pool_tokens` is the engine's memory for one request (`max_total_num_tokens`). All in tokens; None is unknown.
    """

    def __init__(self, max_new_tokens: int, context: int | None) -> None:
        self._max_new_tokens = max_new_tokens
        self.context = context
        self.pool_tokens: int | None = None

    def learn(self, context: int | None, pool_tokens: int | None = None) -> None:
        """Somebody told another limit."""
        if context and context > 0:
            self.context = min(context, self.context or context)
        if pool_tokens and pool_tokens > 0:
            self.pool_tokens = pool_tokens

    def of(self, prompt_tokens: int) -> int:
        """The token limit of an answer to a prompt of this length; 0 or less when there is no room."""
        limit = self._max_new_tokens
        if self.context is not None:
            limit = min(limit, self.context - prompt_tokens - _REFUSED_AT)
        if self.pool_tokens is not None:
            # The engine keeps a few tokens of its pool to itself.
            limit = min(limit, self.pool_tokens - prompt_tokens - 8)
        return limit
