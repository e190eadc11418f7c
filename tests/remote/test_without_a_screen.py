"""The commands without a screen, as a script meets them: JSON by its schema, metrics by Prometheus' own parser, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from console.cli import run
from console.demo import container
from console.demo.state import DemoInfo
from remote.exitcodes import CheckCode
from tests.support.cli import REPO, Ran, console, environment, start_console
from tests.support.json_schema import schema_of, status_schema
from tests.support.needs import needs

DEAD = "root@127.0.0.1:9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def demo(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoInfo]:
    """A stand-in container where the older script runs, where the console of `home` finds it."""
    state = home / "state" / "eagle3-console" / "demo"
    info = container.start(state)
    try:
        yield info
    finally:
        container.stop(state)


@pytest.fixture(scope="module")
def status(demo: DemoInfo, home: Path) -> Ran:
    return console("status", "demo", "--json", home=home)


def check(value: Any, schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(value)


def test_status_by_its_schema(status: Ran) -> None:
    found = status.json()
    check(found, status_schema())
    assert found["link"]["state"] == "live" and len(found["datasets"]) == 8 and found["writers"]


@pytest.mark.parametrize(("command", "code"), [("trace", 0), ("doctor", None), ("audit", 0)])
def test_the_others_by_theirs(command: str, code: int | None, demo: DemoInfo, home: Path) -> None:
    ran = console(command, "demo", "--json", home=home)
    check(ran.json(), schema_of(command))
    assert code is None or ran.code == code


def test_a_restart_and_what_is_told_of_it_by_theirs(demo: DemoInfo, home: Path) -> None:
    """One story: a watch sees the restart; the audit and the report tell of it afterwards."""
    watch = start_console("watch", "demo", "--json", home=home)
    assert watch.stdout is not None
    lines = [json.loads(watch.stdout.readline())]
    restarted = console("restart", "demo", "--yes", "--kill-pid", str(demo.pids["older_script"]), home=home)
    assert restarted.code == 0, restarted.err
    for line in watch.stdout:
        lines.append(json.loads(line))
        if lines[-1]["event"] == "audit" and lines[-1]["action"] == "restart":
            break
    watch.terminate()
    assert watch.wait(20) == 0
    schema = schema_of("watch")
    for line in lines:
        check(line, schema)
    assert {"link", "dataset", "generator", "writer", "alert", "audit"} <= {line["event"] for line in lines}
    entries = console("audit", "demo", "--json", home=home).json()
    check(entries, schema_of("audit"))
    assert any(entry["action"] == "restart" for entry in entries)
    report = console("report", "demo", "--json", home=home)
    check(report.json(), schema_of("report"))


def test_the_metrics_by_prometheus_own_parser(status: Ran, demo: DemoInfo, home: Path) -> None:
    ran = console("status", "demo", "--prometheus", "--check", home=home)
    families = {family.name: family for family in text_string_to_metric_families(ran.out)}
    assert families["eagle3_up"].samples[0].value == 1.0
    tokens = {one.labels["dataset"]: one.value for one in families["eagle3_dataset_completion_tokens"].samples}
    before = {row["id"]: row["tokens"] for row in status.json()["datasets"]}
    assert tokens.keys() == before.keys() and all(tokens[key] >= before[key] for key in before)
    assert tokens["B1"] == before["B1"] > 100_000, "to the last digit: nothing is written there any more"
    assert families["eagle3_snapshot_time_seconds"].samples[0].value > 1.6e9
    assert all(one.labels["target"] for family in families.values() for one in family.samples)
    assert all(family.documentation for family in families.values())


def test_a_check_has_its_own_scale_and_one_line(demo: DemoInfo, home: Path) -> None:
    found = console("status", "demo", "--check", home=home)
    code = CheckCode(found.code)
    assert found.out.startswith(f"{code.name}: ") and found.out.count("\n") == 1


@pytest.mark.parametrize(
    "words", [[DEAD], ["local", "--nonsense"], ["a b"], ["local", "--root", "/nowhere"]], ids=" ".join
)
def test_a_check_that_cannot_be_made_is_unknown(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert run(["status", *words, "--check"]) == CheckCode.UNKNOWN
    said = capsys.readouterr()
    assert said.out.startswith("UNKNOWN: ") and said.out.count("\n") == 1 and "Traceback" not in said.err


def test_a_container_that_is_down_is_a_metric_and_not_an_old_file(home: Path) -> None:
    ran = console("status", DEAD, "--prometheus", home=home)
    (family,) = text_string_to_metric_families(ran.out)
    (sample,) = family.samples
    assert (ran.code, sample.name, sample.labels, sample.value) == (1, "eagle3_up", {"target": DEAD}, 0.0)


def test_plain_text_in_a_pipe(demo: DemoInfo, home: Path) -> None:
    ran = console("status", "demo", home=home, FORCE_COLOR="1", COLORTERM="truecolor")
    assert "MixtureThoughts" in ran.out and "\x1b" not in ran.out


SHELL = """
eval "$(_EAGLE3_CONSOLE_COMPLETE=bash_source eagle3-console)"
COMP_WORDS=(eagle3-console "$@"); COMP_CWORD=$#
_eagle3_console_completion eagle3-console
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_a_real_bash_completes_commands_profiles_and_flags(tmp_path: Path) -> None:
    needs("bash")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "eagle3-console"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{REPO}" exec "{sys.executable}" -m console.cli "$@"\n')
    program.chmod(0o755)
    config = tmp_path / "config" / "eagle3-console" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[profiles.gpu8]\nhost = "h"\n')
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host gate *.lab !x\n  User a\n")
    env = {**environment(tmp_path), "PATH": f"{folder}:{os.environ['PATH']}"}

    def completed(*words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", SHELL, "bash", *words], env=env, capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.split()

    everything = completed("")
    assert {"status", "watch", "gpu8", "gate", "local"} <= set(everything) and "*.lab" not in everything
    assert completed("status", "g") == ["gpu8", "gate"]
    assert completed("status", "--prom") == ["--prometheus"]
    assert "--notify" in completed("watch", "--no"), "the flag; never an address"
    config.write_text("not TOML")
    assert completed("status", "ga") == ["gate"]
