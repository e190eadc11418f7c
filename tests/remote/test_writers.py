"""Processes that were not launched here: found, described without their secrets, and stopped only as named."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import audit, procfs
from remote.errors import OperatorError
from remote.identity import alive, identify
from remote.layout import Layout
from remote.lock import RunLock
from remote.options import Budget
from remote.parents import parent_of
from remote.stop import stop_stray
from remote.writers import Writer, find_writers
from tests.support.runs import BY, REPO, generator_of, identity_of, launch_fake, process

KEEPS_OPEN = """
import argparse, signal, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--max-samples", type=int)
parser.add_argument("--root")
parser.add_argument("--api-key")
parser.add_argument("--deaf", action="store_true")
args = parser.parse_args()
if args.deaf:
    signal.signal(signal.SIGINT, lambda *_: print("no", flush=True))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
out = open(args.root + "/B2_opencodeinstruct/raw_responses.jsonl", "a")
print("up", flush=True)
while True:
    time.sleep(600)
"""

OPENS_AND_CLOSES = """
import sys, time
path = sys.argv[1] + "/B3_magicoder/raw_responses.jsonl"  # knows --token-budget
print("up", flush=True)
while True:
    with open(path, "a") as out:
        out.write("{}\\n")
    time.sleep(0.05)
"""


@pytest.fixture
def tree(layout: Layout) -> Layout:
    for folder in ("B2_opencodeinstruct", "B3_magicoder"):
        (layout.root / folder).mkdir()
    return layout


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run_inference.py"
    path.write_text(KEEPS_OPEN)
    return path


def only(layout: Layout) -> Writer:
    found = find_writers(layout)
    assert len(found) == 1, found
    return found[0]


def nearest(pid: int) -> tuple[int, bool | None] | None:
    """Its parent as `parent_of` tells it among the tests' own processes: whoever runs the tests may itself be run by a
    loop, which would rightly be named instead."""
    ours = {os.getpid()}
    stats = list(procfs.stats())
    for _ in range(3):
        ours |= {stat.pid for stat in stats if stat.ppid in ours}
    among = [stat for stat in stats if stat.pid in ours]
    parent = parent_of(next(stat for stat in among if stat.pid == pid), among)
    return (parent.pid, parent.respawns) if parent is not None else None


def test_one_that_holds_a_data_file_is_described(tree: Layout, script: Path) -> None:
    argv = [
        sys.executable,
        str(script),
        "--max-samples",
        "7000",
        "--root",
        str(tree.root),
        "--api-key",
        "sk-not-to-be-seen",
    ]
    with process(*argv, ready=True) as child:
        found = only(tree)
        assert found.identity == identity_of(child) and found.found_by == "open"
        assert found.files == (str(tree.root / "B2_opencodeinstruct/raw_responses.jsonl"),)
        assert found.datasets == ("B2_opencodeinstruct",)
        assert found.argv[-1] == "***" and "sk-not" not in str(found.to_json())
        value = found.to_json()
        assert value["script"] == str(script)
        assert value["script_digest"] == hashlib.sha256(KEEPS_OPEN.encode()).hexdigest()
        assert value["script_mtime"] == pytest.approx(script.stat().st_mtime)
        assert (value["knows_token_budget"], value["token_budget"], value["max_samples"]) == (False, None, 7000)
        assert value["flags_known"] is True and value["selected"] is None
        assert value["since"] == pytest.approx(time.time(), abs=60)
        assert nearest(child.pid) == (os.getpid(), False)
        assert set(value["parent"]) == {"pid", "argv", "respawns"}


def test_one_that_opens_and_closes_is_found_by_its_command_line(tree: Layout, tmp_path: Path) -> None:
    path = tmp_path / "appender.py"
    path.write_text(OPENS_AND_CLOSES)
    with process(
        sys.executable, "-u", str(path), str(tree.root), "--token-budget=500k", "--datasets", "B3", ready=True
    ) as child:
        for _ in range(20):
            found = only(tree)
            assert found.pid == child.pid
        assert found.knows_token_budget is True
        assert (found.flags.token_budget, found.flags.datasets) == (Budget(500_000), ("B3",))


def test_a_relative_root_and_a_root_in_the_script_are_recognised(tree: Layout, tmp_path: Path) -> None:
    path = tmp_path / "appender.py"
    path.write_text(OPENS_AND_CLOSES)
    relative = os.path.relpath(tree.root, tmp_path)
    with process(sys.executable, "appender.py", relative, ready=True, cwd=tmp_path) as child:
        assert only(tree).pid == child.pid
    built_in = tmp_path / "built_in.py"
    built_in.write_text(OPENS_AND_CLOSES.replace("sys.argv[1]", repr(str(tree.root))))
    with process(sys.executable, str(built_in), ready=True) as child:
        assert only(tree).pid == child.pid
    with process(sys.executable, "-c", OPENS_AND_CLOSES, str(tree.root), ready=True) as child:
        assert only(tree).pid == child.pid


def test_readers_and_bystanders_are_left_out(tree: Layout, tmp_path: Path) -> None:
    data = tree.root / "B2_opencodeinstruct" / "raw_responses.jsonl"
    data.write_text("{}\n")
    reader = tmp_path / "extract.py"
    reader.write_text(
        "import sys, time\nopen(sys.argv[1] + '/x').close() if 0 else None\nprint('up', flush=True)\ntime.sleep(600)"
    )
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "B3_magicoder").mkdir(parents=True)
    appender = tmp_path / "appender.py"
    appender.write_text(OPENS_AND_CLOSES)
    log = f"exec 3>{tree.root}/notes.log; echo up; sleep 600"
    with (
        process("tail", "-n1", "-f", str(data), ready=True),
        process(sys.executable, str(reader), str(tree.root), ready=True),
        process(sys.executable, str(appender), str(elsewhere), ready=True),
        process("/bin/sh", "-c", log, ready=True),
    ):
        assert find_writers(tree) == []


def test_our_own_are_left_out(tree: Layout) -> None:
    launched = launch_fake(tree, "child")
    held = (tree.root / "B2_opencodeinstruct" / "raw_responses.jsonl").open("a")
    try:
        assert find_writers(tree) == [], "neither the run's processes nor the one that looks"
    finally:
        held.close()
    assert alive(launched.identity)
    with pytest.raises(OperatorError) as refused:
        stop_stray(tree, generator_of(tree), BY)
    assert refused.value.code == "ours" and alive(launched.identity)


def test_the_holder_of_the_lock_is_no_stranger(tree: Layout) -> None:
    with RunLock.take(tree, "retokenize") as lock:
        hold = f"exec 3>>{tree.root}/B2_opencodeinstruct/tokenized_data.jsonl; echo up; sleep 600"
        with process("/bin/sh", "-c", hold, ready=True, pass_fds=(lock.fd,)):
            assert find_writers(tree) == []
        with process("/bin/sh", "-c", hold, ready=True) as child:
            assert only(tree).pid == child.pid


def test_worker_processes_belong_to_their_script(tree: Layout, tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(
        "import os, sys, time\n"
        "for name in ('B2_opencodeinstruct', 'B3_magicoder'):\n"
        "    if os.fork() == 0:\n"
        "        out = open(f'{sys.argv[1]}/{name}/raw_responses.jsonl', 'a')\n"
        "        print('up', flush=True)\n"
        "        time.sleep(600)\n"
        "time.sleep(600)\n"
    )
    with process(sys.executable, str(path), str(tree.root), ready=True) as child:
        assert child.stdout is not None and child.stdout.readline()
        found = only(tree)
        assert found.pid == child.pid and found.datasets == ("B2_opencodeinstruct", "B3_magicoder")
        stopped = stop_stray(tree, found.identity, BY, patience_s=1)
        assert stopped.done and find_writers(tree) == []


@pytest.fixture
def loop(tree: Layout, script: Path) -> Iterator[int]:
    """A shell that starts the script again whenever it ends."""
    text = f"while true; do {sys.executable} {script} --root {tree.root}; sleep 0.1; done"
    with process("/bin/bash", "-c", text, ready=True) as shell:
        yield shell.pid


def test_a_stray_that_is_started_again_is_told_with_its_parent(tree: Layout, loop: int) -> None:
    found = only(tree)
    assert found.parent is not None and (found.parent.pid, found.parent.respawns) == (loop, True)
    stopped = stop_stray(tree, found.identity, BY, patience_s=5)
    assert not alive(found.identity) and stopped.left == () and not stopped.done
    assert len(stopped.respawned) == 1
    again = stopped.respawned[0]
    assert again["pid"] != found.pid and again["parent"]["pid"] == loop
    assert "while true" in again["parent"]["argv"]


@pytest.mark.parametrize(
    ("argv", "respawns"),
    [
        (["/bin/bash", "-c", "until {}; do sleep 1; done"], True),
        (["/bin/sh", "-c", "for i in 1 2 3; do {}; done"], True),
        (["/bin/sh", "-c", "{}; exit 0"], False),
        (["/bin/bash", "{loop_script}"], True),
        (["/bin/sh", "{plain_script}"], False),
    ],
)
def test_which_parents_start_it_again(
    tree: Layout, script: Path, tmp_path: Path, argv: list[str], respawns: bool
) -> None:
    command = f"{sys.executable} {script} --root {tree.root}"
    texts = {"loop_script": f"while :\ndo\n  {command}\ndone\n", "plain_script": f"{command}\necho done\n"}
    paths = {}
    for name, text in texts.items():
        paths[name] = tmp_path / f"{name}.sh"
        paths[name].write_text(text)
    words = [word.replace("{}", command) if word.count("{}") else word.format(**paths) for word in argv]
    with process(*words, ready=True) as shell:
        found = only(tree)
        assert nearest(found.pid) == (shell.pid, respawns)
        assert found.parent is not None and (not respawns or found.parent.pid == shell.pid)


def test_a_stray_that_ignores_term_is_killed_in_the_end_and_a_twin_is_not(
    tree: Layout, script: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, str(script), "--root", str(tree.root), "--deaf"]
    with process(*argv, ready=True) as stray, process(*argv, ready=True) as twin:
        meant, innocent = identity_of(stray), identity_of(twin)
        assert [writer.identity for writer in find_writers(tree)] == sorted([meant, innocent], key=lambda one: one.pid)
        stopped = stop_stray(tree, meant, BY, patience_s=0.3)
        assert stopped.signals == ("SIGINT", "SIGTERM", "SIGKILL") and stopped.done
        assert stray.wait(30) == -signal.SIGKILL
        assert alive(innocent), "the same command line, and not the one that was named"


def test_a_stray_that_heeds_int_gets_nothing_harder(tree: Layout, script: Path) -> None:
    with process(sys.executable, str(script), "--root", str(tree.root), ready=True) as stray:
        stopped = stop_stray(tree, identity_of(stray), BY, patience_s=1)
        assert stopped.signals == ("SIGINT",) and stopped.done


def test_by_hand_it_takes_a_pid_and_says_who_starts_it_again(tree: Layout, loop: int) -> None:
    found = only(tree)
    argv = [sys.executable, "-m", "remote", "stop", "--root", str(tree.root), "--pid"]
    done = subprocess.run([*argv, str(found.pid)], capture_output=True, text=True, cwd=REPO, timeout=60)
    assert done.returncode == 1 and f"started again by pid {loop} (/bin/bash -c while true" in done.stdout, done
    assert not alive(found.identity)
    entry = audit.read(tree, 1)[0]
    assert (entry["action"], entry["outcome"], entry["target"]["pid"]) == ("kill-stray", "started again", found.pid)
    gone = subprocess.run([*argv, str(2**22 + 1)], capture_output=True, text=True, cwd=REPO, timeout=60)
    assert gone.returncode == 1 and "there is no process" in gone.stderr


def test_the_containers_first_process_is_not_stopped(tree: Layout) -> None:
    first = identify(1)
    assert first is not None
    with pytest.raises(OperatorError) as refused:
        stop_stray(tree, first, BY)
    assert refused.value.code == "pid-1" and not tree.state.exists()


def test_one_that_is_gone_is_not_looked_for_elsewhere(tree: Layout, script: Path) -> None:
    with process(sys.executable, str(script), "--root", str(tree.root), ready=True) as stray:
        meant = identity_of(stray)
        stray.kill()
        stray.wait()
        with process(sys.executable, str(script), "--root", str(tree.root), ready=True) as other:
            with pytest.raises(OperatorError) as refused:
                stop_stray(tree, meant, BY)
            assert refused.value.code == "gone" and "nothing was signalled" in refused.value.message
            assert other.poll() is None


def test_the_helper_goes_on_when_its_caller_is_killed(tree: Layout, script: Path) -> None:
    """The agent dies in the middle of a stop, as it does when the link drops."""
    argv = [sys.executable, str(script), "--root", str(tree.root), "--deaf"]
    with process(*argv, ready=True) as stray:
        meant = identity_of(stray)
        code = (
            "import sys, json; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path; from remote.layout import Layout; from remote.stop import stop_stray\n"
            "from remote.identity import Identity\n"
            "stop_stray(Layout(Path(sys.argv[2])), Identity.from_json(json.loads(sys.argv[3])), 'ann@laptop', 1.5)\n"
        )
        repo = str(Path(__file__).parents[2])
        with process(sys.executable, "-c", code, repo, str(tree.root), json.dumps(meant.to_json())) as agent:
            assert stray.stdout is not None and stray.stdout.readline() == b"no\n"
            agent.kill()
            agent.wait()
        assert stray.wait(30) == -signal.SIGKILL
    assert identify(meant.pid) != meant
