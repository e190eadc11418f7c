"""A shipped program that is small and does little: it says ready, echoes lines, and knows a few words.

Link tests are about the way there and back; what the real agent says is tested elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from console.ship import Package, pack
from remote.release import build_archive

_SOURCE = """
import json, os, sys

def main():
    marker = sys.argv[sys.argv.index("--marker") + 1]
    facts = {"pid": os.getpid(), "argv": sys.argv, "cwd": os.getcwd(), "flags": [sys.flags.isolated, sys.flags.dont_write_bytecode]}
    sys.stdout.write("\\n%s ready %s\\n" % (marker, json.dumps(facts)))
    sys.stdout.flush()
    from remote import later
    while True:
        line = sys.stdin.readline()
        if not line:
            return 0
        if line == "die\\n":
            os.kill(os.getpid(), 9)
        if line.startswith("exit "):
            sys.stderr.write("going down\\n")
            return int(line.split()[1])
        if line.startswith("flood "):
            sys.stdout.write(("x" * 999 + "\\n") * int(line.split()[1]))
        elif line == "environ\\n":
            sys.stdout.write(json.dumps(dict(os.environ)) + "\\n")
        else:
            sys.stdout.write(later.answer(line))
        sys.stdout.flush()
"""


def small_agent(folder: Path, note: str = "") -> Package:
    """The package, its sources written under `folder`; another `note` makes another release."""
    sources = folder / "small-agent"
    sources.mkdir(exist_ok=True)
    (sources / "__init__.py").write_text(f"# {note}\n")
    (sources / "cli.py").write_text(_SOURCE)
    (sources / "later.py").write_text('def answer(line):\n    return "echo " + line\n')
    return pack(build_archive(sources))
