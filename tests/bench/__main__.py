"""`make bench`: every bench of this folder, one after the other; each prints its ratios with their targets beside them.

    python -m tests.bench [NAME …]

NAME is the part after `bench_` (`scan`, `retokenize`); all when none is given. Ends with 1 when
a target was missed, and says which bench missed it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run the benches, each in a process of its own, so that none measures another's memory."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    missed = []
    for name in names or known:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.bench_{name}"], check=False).returncode:
            missed.append(name)
    print(f"missed a target: {', '.join(missed)}" if missed else "every target met")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
