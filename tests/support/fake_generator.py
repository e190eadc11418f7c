"""A small process that keeps the generator's side of the handshake, for tests of what is above it.

Run as `fake_generator.py [BEHAVIOUR…] generate --run R --root DIR`; behaviours are words before `generate`:
`refuse` says an error instead of ready, `mute` never says anything, `crash` dies before it is ready, `ends` is done at
once after ready, `deaf` ignores TERM and INT, `child` leaves a grandchild that called setsid and ignores TERM,
`reports` writes progress.json once,
`eats` takes memory until it is stopped, `exit=N` ends with that code when stopped, `slow=S` takes S seconds to stop.
"""

import json
import os
import signal
import subprocess
import sys
import time


def main() -> int:
    words = sys.argv[1 : sys.argv.index("generate")]
    root = sys.argv[sys.argv.index("--root") + 1]
    state = os.path.join(root, ".eagle3")
    settings = {key: value for key, _, value in (word.partition("=") for word in words)}
    ready = os.fdopen(int(os.environ["EAGLE3_READY_FD"]), "w")
    lock = int(os.environ["EAGLE3_LOCK_FD"])
    os.set_inheritable(lock, False)
    asked: list[str] = []

    def stop(*_: object) -> None:
        try:
            with open(os.path.join(state, "stop.json"), encoding="utf-8") as file:
                asked.append(json.load(file)["mode"])
        except OSError:
            asked.append("drain")

    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in settings else stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in settings else stop)
    print(
        "fake generator", os.environ["EAGLE3_RUN"], "key" if os.environ.get("EAGLE3_API_KEY") else "no key", flush=True
    )
    if "crash" in settings:
        print("ImportError: no module named luck", file=sys.stderr)
        return 1
    if "refuse" in settings:
        error = {
            "code": "no-tokenizer",
            "message": "no tokenizer in /nowhere",
            "remedy": "check --model-path",
            "exit_code": 1,
        }
        ready.write(json.dumps({"error": error}) + "\n")
        ready.close()
        return 1
    if "child" in settings:
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
        child = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, pass_fds=(lock,)
        )
        assert child.stdout is not None
        child.stdout.readline()
    if "mute" not in settings:
        ready.write(json.dumps({"ready": True}) + "\n")
        ready.close()
    if "reports" in settings:
        said = {"run": os.environ["EAGLE3_RUN"], "at": time.time(), "in_flight": 0, "engine_state": "healthy"}
        with open(os.path.join(state, "progress.json"), "w", encoding="utf-8") as file:
            json.dump(said, file)
    if "ends" in settings:
        return 0
    hoard = []
    while not asked:
        if "eats" in settings:
            hoard.append(b"x" * (8 << 20))
        signal.sigtimedwait([], 0.1) if "deaf" in settings else time.sleep(0.05)
    print("stopping:", asked[0], flush=True)
    time.sleep(float(settings.get("slow", 0)))
    return int(settings.get("exit", 3))


if __name__ == "__main__":
    sys.exit(main())
