"""F4, F6, F13: bad lines in the middle, disks that cannot be read, files larger than memory should be."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

from remote.jsonlines import MAX_LINE_BYTES
from remote.layout import RESPONSES
from remote.records import Rules
from remote.scan import scan_root
from tests.support.disks import DEADLINE_S, FOLDER, child_environment, write_answers
from tests.support.tree import line, make_tree, prompt, response, write_lines

ROOT_OF_TREE = Path(__file__).resolve().parents[2]


def test_a_bad_line_in_the_middle_costs_its_answer_and_no_other(tmp_path: Path) -> None:
    """F4: counted, named by line and byte, generated again; the line stays where it is."""
    write_lines(tmp_path / FOLDER / "prompts.jsonl", (prompt(f"s{number}") for number in range(6)))
    lines = [line(response(f"s{number}", 4)) for number in range(6)]
    lines[3] = lines[3][:30] + b"\x00" + lines[3][31:]
    (tmp_path / FOLDER / RESPONSES).write_bytes(b"".join(lines))
    found = scan_root(tmp_path, Rules()).dataset(FOLDER)
    (problem,) = found.problems
    assert (problem.code, problem.line, problem.offset) == ("bad-json", 4, sum(map(len, lines[:3])))
    assert found.answered_ids() == {"s0", "s1", "s2", "s4", "s5"} and found.prompts_left == 1
    done = write_answers(tmp_path, 6)
    assert done.code == 0 and done.acknowledged == ["s3"]
    after = (tmp_path / FOLDER / RESPONSES).read_bytes()
    assert after.startswith(b"".join(lines))
    found = scan_root(tmp_path, Rules()).dataset(FOLDER)
    assert len(found.answered_ids()) == 6 and found.classes.unusable == 1


def _scan_json(root: Path, cache: str, **fault: object) -> dict[str, dict[str, object]]:
    command = [sys.executable, "-m", "remote", "scan", "--json", "--read-only", "--root", str(root)]
    (root.parent / cache).mkdir(exist_ok=True)
    environment = {**child_environment(**fault), "XDG_CACHE_HOME": str(root.parent / cache)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT_OF_TREE, capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert done.stderr == b""
    return {dataset["name"]: dataset for dataset in json.loads(done.stdout)["datasets"]}


def test_a_disk_that_cannot_be_read_blanks_one_file_alone(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "prepared", "mid")
    whole = _scan_json(root, "one")
    broken = _scan_json(root, "two", path="B2_opencodeinstruct/raw_responses", call="pread", errno=errno.EIO)
    assert broken["B2_opencodeinstruct"]["state"] == "faulty"
    assert broken["B2_opencodeinstruct"]["responses"] is None and broken["B2_opencodeinstruct"]["tokens"] is None
    assert broken["B2_opencodeinstruct"]["prompts"] == 70
    for name in set(whole) - {"B2_opencodeinstruct"}:
        assert broken[name] == whole[name]
    assert _scan_json(root, "two") == whole, "and the next scan has not learned anything false from it"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """F13: 120 MB of answers, and a line of twice the longest that is taken, within 100 MB of memory."""
    write_lines(tmp_path / FOLDER / "prompts.jsonl", (prompt(number) for number in range(900)))
    path = tmp_path / FOLDER / RESPONSES
    with open(path, "wb") as file:
        ids = b"123456," * 20_000 + b"1"
        for number in range(800):
            file.write(
                b'{"sample_id":%d,"output_ids":[%b],"prompt_tokens":9,"completion_tokens":20001,"finish_reason":"stop"}\n'
                % (number, ids)
            )
        file.write(b'{"sample_id":800,"output_ids":[' + b"1," * MAX_LINE_BYTES + b"1]}\n")
        file.write(line(response(801, 3)))
    assert path.stat().st_size > 120 << 20
    # VmHWM and not ru_maxrss: that one begins with the size of the process that forked.
    script = (
        "import re, sys; from pathlib import Path; from remote.records import Rules; from remote.scan import scan_root\n"
        "found = scan_root(Path(sys.argv[1]), Rules()).dataset(sys.argv[2])\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(found.answered, found.classes.unusable, found.problems[0].code, found.problems[0].line, peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), FOLDER],
        env=child_environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    answered, unusable, code, place, peak_kib = done.stdout.split()
    assert (answered, unusable, code, place) == ("801", "1", "line-too-long", "801")
    assert int(peak_kib) < 100 << 10, f"{int(peak_kib) >> 10} MiB"
