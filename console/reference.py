"""The reference pages that are made from the code: keys and settings. `make docs` writes them, a test compares them.

python -m console.reference [FOLDER]     # writes FOLDER/keys.md and FOLDER/settings.md; default docs
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from console.keys import BACK, SCREENS, Key, Needs
from console.settings import COLORS
from console.thresholds import Thresholds
from remote.options import TABLE, Budget, Option

_PLACES = {
    "main": "The main screen",
    "trace": "The trace (`d`)",
    "detail": "A dataset's details (`enter`)",
    "log": "The log (`l`)",
    "alerts": "Alerts, audit and notes (`a`)",
    "targets": "The other targets (`c`)",
    "everywhere": "Everywhere",
    "moves": "Moving in tables and pages",
}
_NEEDS = {
    Needs.NOTHING: "",
    Needs.LOOK: "",
    Needs.LINK: "a live link",
    Needs.CHANGE: "a live link, and not read-only",
}


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _key_rows(keys: Iterable[Key]) -> Iterator[str]:
    yield _row("key", "what it does", "works with")
    yield "|---|---|---|"
    for key in keys:
        help_text = key.help + (" **Asks before it acts.**" if key.destructive else "")
        yield _row(f"`{key.shown}`", help_text, _NEEDS[key.needs])


def key_table(place: str) -> str:
    """The Markdown table of one screen's keys; README has the main screen's."""
    return "\n".join(_key_rows(SCREENS[place]))


def keys_page() -> str:
    """docs/keys.md."""
    parts = [
        "# Keys",
        "",
        "Made from `console/keys.py`, the one table behind bindings, key bar, help and palette. A key that cannot work now "
        "(no live link, or a read-only console) is dimmed and does nothing. No destructive key acts by itself: it freezes its "
        "target, shows what would happen, and asks; a dialog takes no key in its first half second, and Esc, its default, cancels.",
    ]
    for place, title in _PLACES.items():
        keys = SCREENS[place] + ((BACK,) if place == "everywhere" else ())
        parts += ["", f"## {title}", "", "\n".join(_key_rows(keys))]
    return "\n".join(parts) + "\n"


def _default(option: Option) -> str:
    value = option.default
    if isinstance(value, Budget):
        return f"{value.default:,} each"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "off"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def settings_page() -> str:
    """docs/settings.md."""
    rows = [_row("option", "variable", "default", "what it is"), "|---|---|---|---|"]
    for option in TABLE:
        flag = f"`{option.flag} {option.metavar}`" if option.metavar and not option.switch else f"`{option.flag}`"
        if option.side == "profile":
            flag = f"`{option.name}`, in the file only"
        rows.append(_row(flag, f"`{option.variable}`", _default(option), option.help))
    thresholds = Thresholds()
    values = [f"{item.name} = {getattr(thresholds, item.name):g}" for item in fields(Thresholds)]
    return "\n".join(
        [
            "# Settings",
            "",
            "The tables are made from `remote/options.py`. The command line wins over the environment, that over the profile, and "
            "that over the default. Both programs take the same options; they travel to the generator as one object in `run.json`.",
            "",
            *rows,
            "",
            "`EAGLE3_API_KEY` is the engine's key. It travels over the link into the generator's environment, and is in no command "
            "line, setting, log or JSON. `EAGLE3_TARGET` names the target when none is typed.",
            "",
            "## The settings file",
            "",
            "`~/.config/eagle3-console/config.toml` (`$XDG_CONFIG_HOME` is honoured; `--config` names another). A profile takes "
            "every option above under its name with underscores, an address, a colour and alert thresholds. A fault in it is told "
            "with file, key, value and what is allowed.",
            "",
            "```toml",
            'default_profile = "gpu8"',
            "",
            "[sampling]                    # for every profile that has none of its own",
            "temperature = 1.0",
            "",
            "[profiles.gpu8]",
            'host = "ssh root@203.0.113.7 -p 22001"   # whatever the provider shows; or host, user, port, identity, jump, known_hosts',
            'model_path = "/models/Kimi-K2.5"',
            'token_budget = "10M"          # or "10M,B4=20M"',
            "trust_remote_code = true",
            "price_per_hour = 16.5",
            "read_only = false",
            f'color = "red"                 # one of {", ".join(COLORS)}',
            'notify = ["https://ntfy.example/eagle3"]   # secrets: in this file or the environment, never on a command line',
            'heartbeat = "https://checks.example/ping/my-check"',
            "",
            "[profiles.gpu8.thresholds]    # the defaults",
            *values,
            "```",
            "",
        ]
    )


def main() -> None:
    """Write both pages."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, page in (("keys.md", keys_page()), ("settings.md", settings_page())):
        (folder / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
