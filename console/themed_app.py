"""An app in our two themes, from its first moment on."""

from __future__ import annotations

from textual.app import App
from textual.reactive import Reactive
from textual.theme import Theme

from console.themes import DARK, DARK_PALETTE, LIGHT, LIGHT_PALETTE


class ThemedApp(App[int]):
    """Dark at first. The themes are the class's own: one that is set later would have Textual read all the style
    sheets once more before the first paint."""

    theme: Reactive[str] = Reactive(DARK.name)
    ansi_theme_dark = Reactive(DARK_PALETTE, init=False)
    ansi_theme_light = Reactive(LIGHT_PALETTE, init=False)

    @property
    def available_themes(self) -> dict[str, Theme]:
        """The two that the screens are made for."""
        return {theme.name: theme for theme in (DARK, LIGHT)}

    def action_next_theme(self) -> None:
        """Dark or light."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name
