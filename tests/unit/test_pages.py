"""The pages written by hand against the code: commands and flags, exit codes, states, thresholds, reasons, methods, modules."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from itertools import dropwhile, takewhile
from pathlib import Path

import click
import pytest

from console.cli import cli
from console.thresholds import Thresholds
from console.view import LinkState
from remote import agent, row_stream, tokenization
from remote.cli import COMMANDS, make_parser
from remote.exitcodes import CheckCode, ExitCode
from remote.tokenized_meta import Meta
from tests.support.json_schema import status_schema

REPO = Path(__file__).resolve().parents[2]
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in (REPO / "README.md", *sorted((REPO / "docs").glob("*.md")))
}
ELSEWHERE = {
    *("--worker-urls", "--policy", "--disable-retries", "--request-timeout-secs"),  # SGLang's router
    "--allow-auto-truncate",  # SGLang
}


def commands() -> list[tuple[str, str]]:
    """Every command line of ours in a block of shell, with its page."""
    blocks = [
        (name, block) for name, page in PAGES.items() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    ]
    lines = [(name, line) for name, block in blocks for line in block.splitlines()]
    return [(name, line) for name, line in lines if re.match(r"(\.venv/bin/)?eagle3-console ", line)]


def column(page: str, heading: str, which: int = 0) -> list[str]:
    """One column of the first table after a heading (or any line that holds it)."""
    after = PAGES[page].partition(heading)[2].splitlines()
    table = list(takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), after)))
    assert len(table) > 2, f"{page} has no table after {heading!r}"
    return [line.split("|")[which + 1].strip() for line in table[2:]]


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda text: text)
def test_a_command_that_is_shown_is_one_that_is_taken(page: str, line: str) -> None:
    words = shlex.split(line.partition(" > ")[0].partition(" | ")[0], comments=True)[1:]
    command = cli.commands[words.pop(0)] if words and words[0] in cli.commands else cli.commands["open"]
    command.make_parser(click.Context(command)).parse_args(words)


def test_every_flag_that_is_named_exists() -> None:
    ours = {flag for command in cli.commands.values() for item in command.params for flag in item.opts}
    for command in COMMANDS:
        subparsers = next(action for action in make_parser(command)._actions if isinstance(action.choices, dict))
        ours |= set(subparsers.choices[command]._option_string_actions)
    for name, page in PAGES.items():
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page))
        assert named - ours - ELSEWHERE <= {"--help", "--version"}, name


def test_exit_codes() -> None:
    page = PAGES["without-a-screen.md"]
    rows = {int(code) for code in column("without-a-screen.md", "## Exit codes")}
    told = rows | {int(code) for code in re.findall(r"(\d) \(", page.partition("`generate` on the container")[2])}
    assert told == {int(code) for code in ExitCode}
    assert all(f"{code.value} {code.name}" in page for code in CheckCode)


def test_states_of_the_link() -> None:
    assert status_schema()["properties"]["link"]["properties"]["state"]["enum"] == [str(state) for state in LinkState]
    assert ", ".join(f"`{state}`" for state in LinkState) in PAGES["json.md"]


def test_thresholds_and_their_defaults() -> None:
    names = [name for row in column("alerts.md", "Numbers in *italics*") for name in re.findall(r"`(\w+)`", row)]
    values = [value for row in column("alerts.md", "Numbers in *italics*", 1) for value in row.split(", ")]
    assert dict(zip(names, map(float, values), strict=True)) == dataclasses.asdict(Thresholds())


def test_reasons_of_a_sample_that_is_left_out() -> None:
    raised = set(re.findall(r'_LeaveOut\(\s*"([a-z-]+)"', inspect.getsource(row_stream)))
    assert {
        name.strip("`") for name in column("tokenizing.md", "Every line of `raw_responses.jsonl` is a row")
    } == raised


def test_reasons_of_a_tokenizing() -> None:
    listed = re.search(r"Reasons: (.*?)\.\n", str(tokenization.tokenization_of.__doc__), re.DOTALL)
    assert listed is not None
    told = [
        name
        for row in column("tokenizing.md", "nothing is read to find that nothing changed.")
        for name in row.split(", ")
    ]
    assert {name.strip("`") for name in told} == set(re.findall(r"`([a-z-]+)`", listed[1]))


def test_keys_of_the_meta_file() -> None:
    section = PAGES["tokenizing.md"].partition("## `tokenized_data.meta.json`")[2]
    keys = set(re.findall(r'^            "(\w+)":', inspect.getsource(Meta.to_json), re.MULTILINE))
    assert "version" in keys and keys <= set(re.findall(r"`(\w+)`", section))


def test_every_method_of_the_agent_has_its_row() -> None:
    rows = {name.strip("`") for name in column("architecture.md", "## Across the link") if name}
    quick = set(re.findall(r'"(\w+)": self\._', inspect.getsource(agent)))
    assert rows == quick | {*agent.LOOKING, *agent.CHANGING, "ping"}


def test_the_modules_that_the_architecture_names_are_there() -> None:
    page = PAGES["architecture.md"]
    named = set(re.findall(r"`((?:console|widgets|tests)/[\w/]+)`", page))
    ours = {
        f"remote/{name.partition('.')[0]}"
        for part in ("## Data", "## The run", "## The process")
        for row in column("architecture.md", part)
        for name in re.findall(r"`([a-z_0-9.]+)`", row)
    }
    for name in sorted(named | ours):
        assert (REPO / f"{name}.py").exists() or (REPO / name).is_dir(), name
