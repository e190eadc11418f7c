"""The preflight against real things: processes, locks, file systems, interpreters, an engine that answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from remote import audit, preflight_engine, preflight_host, preflight_python, procfs
from remote.check import Check
from remote.facts import Process, Surroundings
from remote.fingerprint import Fingerprint
from remote.layout import Layout
from remote.lock import RunLock
from remote.model import ModelFacts, read_model
from remote.options import Budget, Options
from remote.planning import make_plan
from remote.preflight import CHECKS, run_preflight
from remote.preflight_look import Look
from remote.probe import EngineFacts, probe_engine
from remote.probe_python import PythonFacts, probe_python
from remote.records import Rules
from remote.retokenize import retokenize_dataset
from remote.runfile import write_object
from remote.runs import Run, record_start
from remote.scan import scan_root
from remote.surroundings import look_around
from tests.support.answered import Answered
from tests.support.cli import wait_until
from tests.support.needs import needs_root
from tests.support.tokenizers import fast_model, make_fast_model, make_kimi_model
from tests.support.tree import SHAPES, make_tree, write_lines

GOOD_PYTHON = PythonFacts("python3", "3.11.9", {"transformers": "5.0", "httpx": "0.28", "jinja2": "3.1"})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Options:
    return make_fast_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Prompts alone: with a small model's vocabulary no record of the tree would be usable."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    return make_tree(folder, "seed", SHAPES[3:])


@contextmanager
def engine(*arguments: str) -> Iterator[str]:
    """A stand-in engine in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "console.demo.engine", "--port", "0", "--health-s", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def around(root: Path, options: Options, facts: EngineFacts | None = None) -> Surroundings:
    return look_around(Layout(root), options, gpus=8, engine=facts)


def look(root: Path, options: Options, found: Surroundings | None = None, **more: object) -> Look:
    layout = Layout(root)
    found = found or around(root, options)
    plan, states = make_plan(layout, scan_root(root, Rules()), options, found)
    whole = Look(layout, options, found, states, plan, GOOD_PYTHON)
    return replace(whole, **more)  # type: ignore[arg-type]


def rows(checks: list[Check]) -> dict[str, Check]:
    return {check.check: check for check in checks}


def test_all_is_well(root: Path, model: Options) -> None:
    with engine("--model-path", str(model.model_path)) as url:
        options = replace(model, root=str(root), engine_url=url)
        found = around(root, options, probe_engine(url))
        plan, states = make_plan(Layout(root), scan_root(root, Rules()), options, found)
        checks = run_preflight(
            Layout(root), options, states, plan, found, python=sys.executable, operator_at=found.at - 0.2
        )
    assert [check.check for check in checks] == [check.__name__ for check in CHECKS]
    assert [(check.check, check.level, check.detail) for check in checks if check.level != "ok"] == []
    assert not (root / ".eagle3").exists()


def test_another_model_behind_the_url_blocks(root: Path, model: Options, tmp_path: Path) -> None:
    other = make_fast_model(tmp_path / "other-model")
    with engine("--model-path", str(other.model_path)) as url:
        options = replace(model, root=str(root), engine_url=url)
        facts = probe_engine(url)
    checked = preflight_engine.model(look(root, options, around(root, options, facts)))
    assert checked.level == "blocker"
    assert str(other.model_path) in checked.detail + checked.remedy


@pytest.mark.parametrize(
    ("served", "length", "level"),
    [
        ("/models/Kimi-K2.5", 1000, "ok"),
        ("moonshotai/kimi-k2.5/", 1000, "ok"),
        ("/models/Llama", 1000, "blocker"),
        ("/models/Kimi-K2.5", 2000, "blocker"),
        ("/models/Kimi-K2.5", None, "ok"),
    ],
)
def test_paths_that_cannot_be_compared_are_judged_by_name_and_length(
    root: Path, served: str, length: int | None, level: str
) -> None:
    options = Options(root=str(root), model_path="/elsewhere/Kimi-K2.5")
    ours = ModelFacts(path="/elsewhere/Kimi-K2.5", name="Kimi-K2.5", context_length=1000)
    facts = EngineFacts("u", "healthy", model_path=served, context_length=length)
    found = replace(around(root, Options(root=str(root))), model=ours, engine=facts)
    assert preflight_engine.model(look(root, options, found)).level == level


def test_a_link_to_the_same_folder_is_the_same_model(root: Path, model: Options, tmp_path: Path) -> None:
    link = tmp_path / "served"
    link.symlink_to(str(model.model_path))
    facts = EngineFacts("u", "healthy", model_path=str(link))
    options = replace(model, root=str(root))
    assert preflight_engine.model(look(root, options, around(root, options, facts))).level == "ok"


def test_an_engine_that_is_down_is_waited_for(root: Path, model: Options) -> None:
    options = replace(model, root=str(root), engine_url="http://127.0.0.1:9")
    found = around(root, options, probe_engine(options.engine_url, None, 5.0))
    checked = preflight_engine.engine(look(root, options, found))
    assert (checked.level, "waits for it" in checked.detail) == ("warning", True)
    assert preflight_engine.model(look(root, options, found)).level == "warning"


def test_a_wrong_key_blocks_and_a_key_that_travels_later_does_not(root: Path, model: Options) -> None:
    with engine("--model-path", str(model.model_path), "--api-key", "right") as url:
        options = replace(model, root=str(root), engine_url=url)
        wrong = around(root, options, probe_engine(url, "wrong"))
        right = around(root, options, probe_engine(url, "right"))
    assert preflight_engine.engine(look(root, options, wrong, api_key_known=True)).level == "blocker"
    assert preflight_engine.engine(look(root, options, wrong)).level == "warning"
    assert preflight_engine.engine(look(root, options, right, api_key_known=True)).level == "ok"


def test_a_stranger_that_writes_must_be_named(root: Path) -> None:
    script = root.parent / "run_inference.py"
    target = root / "B4_mixturethoughts" / "raw_responses.jsonl"
    script.write_text(f"import sys\nf = open({str(target)!r}, 'a')\nprint('open', flush=True)\nsys.stdin.read()\n")
    command = [sys.executable, str(script), "--max-samples", "7000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        options = Options(root=str(root))
        found = around(root, options)
        seen = look(root, options, found)
        unnamed = preflight_host.writers(seen)
        named = preflight_host.writers(replace(seen, stopping=frozenset({stranger.pid})))
        at_launch = preflight_host.writers(replace(seen, stopping=frozenset({stranger.pid}), launching=True))
        stranger.kill()
    assert (unnamed.level, unnamed.remedy) == ("warning", f"--kill-pid {stranger.pid}")
    assert named.level == "ok"
    assert at_launch.level == "blocker"
    (process,) = found.processes
    assert (process.pid, process.max_samples, process.datasets) == (stranger.pid, 7000, ("B4_mixturethoughts",))
    assert process.knows_token_budget is False


def test_growth_without_a_writer_blocks(root: Path) -> None:
    seen = look(root, Options(root=str(root)))
    growing = [replace(state, growing=state.folder.startswith("B4")) for state in seen.states]
    assert preflight_host.growth(seen).level == "ok"
    responses = root / "B4_mixturethoughts" / "raw_responses.jsonl"
    code = "import sys, time\nwhile True:\n    open(sys.argv[1], 'a').write('{}\\n')\n    time.sleep(0.05)"
    with subprocess.Popen([sys.executable, "-c", code, str(responses)]) as appender:
        blocked = preflight_host.growth(replace(seen, states=growing))
        appender.kill()
    assert (blocked.level, "B4" in blocked.detail) == ("blocker", True)
    # It has just died: its last lines are in nobody's way.
    assert preflight_host.growth(replace(seen, states=growing)).level == "ok"
    writer = replace(seen.around, processes=(Process(1, datasets=("B4_mixturethoughts",)),))
    assert preflight_host.growth(replace(seen, states=growing, around=writer)).level == "ok"


def test_growth_before_the_end_of_a_known_writer_is_explained(root: Path) -> None:
    """The scan calls a file growing for some seconds more; a restart that has just stopped the writer must go on."""
    layout = Layout(root)
    options = Options(root=str(root))
    found = around(root, options)
    plan, states = make_plan(layout, scan_root(root, Rules()), options, found)

    def growth(changed_at: float) -> str:
        growing = [replace(state, growing=True, responses_changed_at=changed_at) for state in states[3:4]]
        checks = run_preflight(layout, options, growing, plan, found, python=GOOD_PYTHON, launching=True)
        return rows(checks)["growth"].level

    before = time.time()
    with appending(root / SHAPES[3].folder / "raw_responses.jsonl"):
        assert growth(before) == "blocker"
        audit.record(layout, "ann@laptop", "kill", "not gone")
        assert growth(before) == "blocker"
        audit.record(layout, "ann@laptop", "kill", "stopped")
        assert growth(before) == "ok"
        assert growth(time.time() + 1) == "blocker"
        write_object(layout.exit_json, {"run": "r", "at": time.time() + 2})
        assert growth(time.time() + 1) == "ok"


@contextmanager
def appending(path: Path) -> Iterator[None]:
    """Somebody who opens, appends and closes, ten times a second."""
    stop = threading.Event()

    def append() -> None:
        while not stop.wait(0.1):
            with path.open("ab") as file:
                file.write(b"{}\n")

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_held_lock_names_its_holder(root: Path) -> None:
    lock = RunLock.take(Layout(root), "retokenize", "ann@laptop")
    try:
        seen = look(root, Options(root=str(root)))
        stray = preflight_host.lock(seen)
        ours = replace(seen.around, processes=(Process(os.getpid(), ours=True),))
        to_be_stopped = preflight_host.lock(replace(seen, around=ours))
        at_launch = preflight_host.lock(replace(seen, around=ours, launching=True))
    finally:
        os.close(lock.fd)
    assert (stray.level, "ann@laptop" in stray.detail, str(os.getpid()) in stray.detail) == ("blocker", True, True)
    assert to_be_stopped.level == "ok"
    assert at_launch.level == "blocker"
    assert preflight_host.lock(seen).level == "ok"


def test_a_hold_blocks_until_it_is_accepted_by_name(root: Path) -> None:
    layout = Layout(root)
    audit.write_hold(layout, "ann@laptop", "extraction reading")
    for accept, level in (((), "blocker"), (("lock",), "blocker"), (("hold",), "warning")):
        options = Options(root=str(root), accept=accept)
        found = around(root, options)
        plan, states = make_plan(layout, scan_root(root, Rules()), options, found)
        hold = rows(run_preflight(layout, options, states, plan, found, python=GOOD_PYTHON))["hold"]
        assert (hold.level, "extraction reading" in hold.detail) == (level, True)
        assert ("--accept hold" in hold.remedy) is (level == "blocker")


def test_a_disk_that_is_too_small_blocks(root: Path) -> None:
    seen = look(root, Options(root=str(root)))
    assert preflight_host.disk(seen).level == "ok"
    full = replace(seen.plan, totals=replace(seen.plan.totals, needed_bytes=10**18))
    assert preflight_host.disk(replace(seen, plan=full)).level == "blocker"
    free = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize
    close = replace(seen.plan, totals=replace(seen.plan.totals, needed_bytes=round(free / 1.1)))
    assert preflight_host.disk(replace(seen, plan=close)).level == "warning"


def test_a_disk_that_is_too_small_names_what_replaced_rows_hold_and_would_free(root: Path) -> None:
    seen = look(root, Options(root=str(root)))
    full = replace(seen, plan=replace(seen.plan, totals=replace(seen.plan.totals, needed_bytes=10**18)))
    kept = Layout(root).previous
    kept.mkdir(parents=True)
    assert str(kept) not in preflight_host.disk(full).remedy
    (kept / "B1_glaive.20261201T031332Z.tokenized_data.jsonl").write_bytes(bytes(3_000_000))
    # A name more for a file that is in use frees nothing.
    (root / "in-use").write_bytes(bytes(1_000_000))
    os.link(root / "in-use", kept / "linked")
    said = preflight_host.disk(full)
    assert said.level == "blocker" and f"replaced rows hold 3.00 MB of it: {kept}" in said.remedy
    assert preflight_host.disk(seen).remedy == ""


def test_a_read_only_file_system_blocks_and_says_so(root: Path, tmp_path: Path) -> None:
    needs_root("mounts a file system read-only")
    mount = tmp_path / "mount"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        make_tree(mount, "seed", SHAPES[3:4])
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        checked = preflight_host.root(look(mount, Options(root=str(mount))))
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert (checked.level, "remount,rw" in checked.remedy) == ("blocker", True)


def test_clocks_that_differ_are_said(root: Path) -> None:
    seen = look(root, Options(root=str(root)))
    at = seen.around.at
    assert preflight_host.clock(replace(seen, operator_at=at - 1)).level == "ok"
    behind = preflight_host.clock(replace(seen, operator_at=at + 90))
    assert (behind.level, "1 m 30 s behind" in behind.detail) == ("warning", True)


def test_a_python_without_the_libraries_names_the_command(root: Path, model: Options, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    facts = probe_python(python, model)
    seen = replace(look(root, replace(model, root=str(root))), python=facts)
    assert preflight_python.python(seen).level == "ok"
    imports = preflight_python.imports(seen)
    assert imports.level == "blocker"
    assert imports.remedy == f"{python} -m pip install transformers httpx jinja2"
    assert preflight_python.tokenizer(seen).level == "warning"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 3", "exit code 3"),
        ("printf 'eagle3-python-probe:version 3.8.10\\n'", "older than 3.10"),
        ("printf 'eagle3-python-probe:version 3.11.1\\n'; exit 1", "ended without an answer"),
        ("printf 'eagle3-python-probe:version 3.11.1\\n'; kill -9 $$", "signal 9"),
    ],
)
def test_what_is_no_python_is_named(root: Path, tmp_path: Path, body: str, words: str) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\n{body}\n")
    fake.chmod(0o755)
    facts = probe_python(str(fake), Options())
    checked = preflight_python.python(replace(look(root, Options(root=str(root))), python=facts))
    assert (checked.level, words in checked.detail) == ("blocker", True), checked


def test_a_python_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/pid\nwait\n")
    fake.chmod(0o755)
    facts = probe_python(str(fake), Options(), limit_s=3.0)
    assert "did not answer" in facts.error
    pid = int((tmp_path / "pid").read_text())

    def gone() -> bool:
        stat = procfs.read_stat(pid)
        # A killed orphan is a zombie until PID 1 reaps it; it must not run.
        return stat is None or stat.dead

    wait_until(gone, 10, "what the hanging Python started is killed with it")


def test_a_tokenizer_with_code_of_its_own_needs_the_switch(root: Path, tmp_path: Path) -> None:
    kimi = make_kimi_model(tmp_path / "kimi")
    options = replace(kimi, root=str(root), trust_remote_code=False)
    seen = look(root, options, python=probe_python(sys.executable, options))
    refused = preflight_python.tokenizer(seen)
    assert (refused.level, "--trust-remote-code" in refused.remedy) == ("blocker", True), refused
    trusted = replace(options, trust_remote_code=True)
    assert preflight_python.tokenizer(look(root, trusted, python=probe_python(sys.executable, trusted))).level == "ok"


def test_no_model_path_blocks_and_tells_what_is_served(root: Path) -> None:
    options = Options(root=str(root))
    found = around(root, options, EngineFacts("u", "healthy", model_path="/models/K"))
    checked = preflight_python.tokenizer(look(root, options, found))
    assert (checked.level, "/models/K" in checked.detail) == ("blocker", True)


def test_the_tokenizer_is_compared_with_the_last_tokenizing_and_the_last_run(tmp_path: Path) -> None:
    loaded = fast_model()
    facts = read_model(loaded.path)
    data = Answered(tmp_path, loaded.tokenizer, min(facts.eos_ids))
    data.write_prompts(3)
    write_lines(data.responses, [data.record("s0"), data.record("s1")])
    options = replace(loaded.options, root=str(tmp_path), token_budget=Budget(1))
    found = around(tmp_path, options)

    def checked(fingerprint: Fingerprint) -> Check:
        plan, states = make_plan(data.layout, scan_root(tmp_path, Rules()), options, found)
        python = replace(GOOD_PYTHON, fingerprint=fingerprint)
        return rows(run_preflight(data.layout, options, states, plan, found, python=python))["fingerprint"]

    now = loaded.tokenizer.fingerprint
    later = replace(now, versions={**now.versions, "transformers": "99.0"})
    assert "nothing was tokenized" in checked(now).detail
    retokenize_dataset(data.layout, data.folder, options, loaded.tokenizer)
    assert (checked(now).level, "as B3 was tokenized" in checked(now).detail) == ("ok", True)
    assert (checked(later).level, "transformers" in checked(later).detail) == ("warning", True)
    data.layout.make_state()
    record_start(data.layout, Run("r1", 1.0, fingerprint=later.to_json()), {})
    assert (checked(now).level, "the last run" in checked(now).detail) == ("warning", True)
