"""Text that wraps: what dialogs say."""

from __future__ import annotations

from rich.text import Text

from widgets.card import Block


class Paragraph(Block):
    """A `Block` whose lines wrap; it takes no room while it says nothing."""

    DEFAULT_CSS = """
    Paragraph { text-wrap: wrap; text-overflow: fold; }
    """

    reflows = True

    def __init__(self, words: Text | str = "", *, tone: str = "", id: str | None = None) -> None:
        words = Text.assemble((words, tone)) if isinstance(words, str) else words
        super().__init__([words] if words.plain else [], id=id)
        self.display = bool(words.plain.strip())

    def say(self, words: Text) -> None:
        """Say something else."""
        self.display = bool(words.plain.strip())
        self.show([words])
