"""A framed card of finished lines, and the plain block of lines without a frame."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from widgets.card_value import CardValue


class Block(Static):
    """Finished lines, one below the other; a line too long ends in an ellipsis."""

    DEFAULT_CSS = """
    Block { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    Block.-stale { text-opacity: 55%; }
    """

    reflows = False
    """Whether other words can need another number of lines on the screen."""

    def __init__(self, lines: Sequence[Text] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(joined(lines), id=id, classes=classes, markup=False)
        self._lines = tuple(lines)

    def on_mount(self) -> None:
        """Colours are settled when text is set: a change of theme means setting it again."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.update(joined(self._lines)))

    def on_unmount(self) -> None:
        """The signal would hold the callback, and by it this block and all it shows, for the app's life."""
        self.app.theme_changed_signal.unsubscribe(self)

    @property
    def lines(self) -> tuple[Text, ...]:
        """What is shown now."""
        return self._lines

    def show(self, lines: Sequence[Text], stale: bool = False) -> None:
        """Show these lines. The same lines again cost nothing."""
        self.set_class(stale, "-stale")
        if self._lines != tuple(lines):
            # Laying the screen out again is the dear part: only another number of lines asks for it.
            layout = self.reflows or len(lines) != len(self._lines)
            self._lines = tuple(lines)
            self.update(joined(lines), layout=layout)


class Card(Block):
    """A `Block` in a frame with a title."""

    DEFAULT_CSS = """
    Card { border: round $border-blurred; border-title-color: $text-muted; padding: 0 1; height: auto; }
    """

    _title = ""

    def show_value(self, value: CardValue) -> None:
        """Show a card's value."""
        if value.title != self._title:
            # A Text, because a plain string would be read as markup.
            self._title = value.title
            self.border_title = Text(value.title)
        self.show(value.lines, value.stale)


def joined(lines: Sequence[Text]) -> Text:
    """Lines as one Text that does not wrap.

    Styles end up in spans: Textual reads the style of a whole Text as CSS, where `red` is another red.
    """
    text = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
    text.no_wrap = True
    return text
