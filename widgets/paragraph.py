"""Text that wraps: what dialogs say."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size

from widgets.card import Block, joined
from widgets.wrapping import wrapped_text


class Paragraph(Block):
    """A `Block` whose lines are broken to the width there is; it takes no room while it says nothing."""

    reflows = True

    def __init__(self, words: Text | str = "", *, tone: str = "", id: str | None = None) -> None:
        words = Text.assemble((words, tone)) if isinstance(words, str) else words
        super().__init__([words] if words.plain else [], id=id)
        self.display = bool(words.plain.strip())

    def say(self, words: Text) -> None:
        """Say something else."""
        self.display = bool(words.plain.strip())
        self.show([words])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._broken(width))

    def render(self) -> Text:
        return joined(self._broken(self.content_size.width))

    def _broken(self, width: int) -> list[Text]:
        return [line for text in self.lines for line in wrapped_text(text, max(1, width))]
