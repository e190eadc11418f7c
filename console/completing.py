"""What the shell is offered after Tab: subcommands and targets. Asks nobody over the network and complains about nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from click_default_group import DefaultGroup

from remote.errors import OperatorError

_HOST_LINE = re.compile(r"\s*host[\s=]+(.*)", re.IGNORECASE)


def complete_target(context: click.Context, parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
    """The profiles of the settings, the aliases of ~/.ssh/config, `local` and `demo` that begin so."""
    from console.settings import load_settings

    named = context.params.get("config")
    try:
        profiles = load_settings("local", {"config": named} if named else {}).profiles
    except OperatorError:
        # Whoever runs the command will be told; a line in the middle of a prompt helps nobody.
        profiles = {}
    found = [CompletionItem(name, help=str(profile.target)) for name, profile in profiles.items()]
    found += [CompletionItem(alias, help="~/.ssh/config") for alias in ssh_aliases() if alias not in profiles]
    found += [CompletionItem("local", help="this machine, without SSH"), CompletionItem("demo", help="the stand-in")]
    return [item for item in found if str(item.value).startswith(begun)]


def ssh_aliases(path: Path | None = None) -> Iterator[str]:
    """The names on `Host` lines that are no patterns, each once; none when the file cannot be read."""
    try:
        lines = (path or Path.home() / ".ssh" / "config").read_text("utf-8", "replace").splitlines()
    except (OSError, RuntimeError):
        return
    names = (name for line in lines if (match := _HOST_LINE.fullmatch(line)) for name in match[1].split())
    yield from dict.fromkeys(name for name in names if not re.search(r"[*?!\"]", name))


class ConsoleGroup(DefaultGroup):  # type: ignore[misc]
    """A group whose first word may be a subcommand or a TARGET, and is completed as either."""

    def parse_args(self, context: click.Context, words: list[str]) -> Any:
        if context.resilient_parsing and not words:
            # Nothing is typed yet: the default subcommand must not hide the others.
            return click.Group.parse_args(self, context, words)
        return super().parse_args(context, words)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(context, incomplete), *complete_target(context, None, incomplete)]
