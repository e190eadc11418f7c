"""Two themes of our own, dark and light, and the sixteen colours that the words of a `Text` are drawn with.

Calm by intent: one accent, no coloured backgrounds; green, amber and red are left to what they mean.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

DARK = Theme(
    name="eagle-dark",
    primary="#7aa2c8",
    secondary="#5d7f9e",
    accent="#8fb8de",
    foreground="#d6dbe0",
    background="#14171a",
    surface="#1a1e22",
    panel="#20252a",
    success="#86b97a",
    warning="#d9a94a",
    error="#e5736b",
    dark=True,
    variables={
        "border": "#3a444d",
        "border-blurred": "#3a444d",
        "text-muted": "#8d979f",
        "block-cursor-background": "#2c3a47",
        "block-cursor-foreground": "#f2f5f7",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#242c33",
        "block-cursor-blurred-foreground": "#d6dbe0",
        "scrollbar": "#3a444d",
        "scrollbar-background": "#1a1e22",
    },
)

LIGHT = Theme(
    name="eagle-light",
    primary="#2f6690",
    secondary="#527a98",
    accent="#1f5f8b",
    foreground="#20262b",
    background="#fbfbf9",
    surface="#f3f3f0",
    panel="#e9e9e5",
    success="#2f7a3d",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={
        "border": "#b9bfc4",
        "border-blurred": "#b9bfc4",
        "text-muted": "#626b72",
        "block-cursor-background": "#d4e3ef",
        "block-cursor-foreground": "#10161b",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#e3e9ee",
        "block-cursor-blurred-foreground": "#20262b",
        "scrollbar": "#b9bfc4",
        "scrollbar-background": "#f3f3f0",
    },
)

DARK_PALETTE = TerminalTheme(
    (20, 23, 26),
    (214, 219, 224),
    [
        (20, 23, 26),
        (229, 115, 107),
        (134, 185, 122),
        (217, 169, 74),
        (122, 162, 200),
        (190, 150, 200),
        (122, 190, 196),
        (214, 219, 224),
    ],
    [
        (120, 130, 138),
        (240, 138, 130),
        (160, 208, 148),
        (232, 190, 104),
        (150, 188, 222),
        (208, 172, 216),
        (150, 210, 215),
        (242, 245, 247),
    ],
)

LIGHT_PALETTE = TerminalTheme(
    (251, 251, 249),
    (32, 38, 43),
    [
        (32, 38, 43),
        (179, 38, 30),
        (47, 122, 61),
        (138, 90, 0),
        (47, 102, 144),
        (122, 62, 140),
        (0, 112, 128),
        (98, 107, 114),
    ],
    [
        (98, 107, 114),
        (150, 30, 24),
        (36, 100, 48),
        (115, 75, 0),
        (31, 95, 139),
        (100, 48, 118),
        (0, 92, 105),
        (32, 38, 43),
    ],
)
