"""A stand-in for SGLang: the same HTTP contract, no model, a stated speed.

    python -m console.demo.engine --port 0 --model-path DIR --seed 1 --request-tokens-s 80

It answers as SGLang 0.5.9 does; `--emulate 0.5.3` and `--emulate 0.5.23` change what those versions do otherwise. It
prints one JSON line, `{"url", "pid"}`, when it listens, and ends on SIGTERM. Faults: see `engine_faults`.
As with the real one, an id outside the vocabulary ends the whole process: no client may send one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from console.demo.engine_core import Engine
from console.demo.engine_decode import Vocabulary, read_vocabulary
from console.demo.engine_faults import Faults
from console.demo.engine_http import serve
from console.demo.engine_settings import VERSIONS, EngineSettings


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m console.demo.engine", description="A stand-in for SGLang.")
    default = EngineSettings()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model-path", default=None, help="vocabulary and end-of-sequence ids are read there")
    parser.add_argument("--served-name", default=None)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--mean-tokens", type=float, default=default.mean_tokens)
    parser.add_argument("--sigma", type=float, default=default.sigma)
    parser.add_argument("--request-tokens-s", "--tokens-per-s", type=float, default=default.request_tokens_s)
    parser.add_argument("--batch-tokens-s", type=float, default=default.batch_tokens_s)
    parser.add_argument("--max-running", type=int, default=default.max_running)
    parser.add_argument("--max-queued", type=int, default=None)
    parser.add_argument("--context-length", type=int, default=default.context_length)
    parser.add_argument("--api-key", default=None)
    parser.add_argument("--emulate", choices=sorted(VERSIONS), default=default.emulate)
    parser.add_argument("--no-metrics", dest="metrics", action="store_false")
    parser.add_argument("--health-s", type=float, default=default.health_s)
    parser.add_argument("--load-s", type=float, default=0.0, help="seconds it answers 503, as while a model loads")
    parser.add_argument("--weight-version", default=default.weight_version)
    parser.add_argument("--faults", default="[]", help="JSON array of faults")
    return parser


async def _serve(settings: EngineSettings, vocabulary: Vocabulary, faults: Faults, host: str, port: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = await serve(Engine(settings, vocabulary, faults).handle, host, port)
    bound = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://{host}:{bound}", "pid": os.getpid()}), flush=True)
    await stopping.wait()
    server.close()


def main(argv: list[str] | None = None) -> int:
    """Run a stand-in engine until SIGTERM."""
    arguments = vars(_arguments().parse_args(argv))
    host, port, raw = arguments.pop("host"), arguments.pop("port"), json.loads(arguments.pop("faults"))
    model_path = arguments.pop("model_path") or None
    settings = replace(EngineSettings(**arguments), model_path=model_path or EngineSettings.model_path)
    faults = Faults()
    for value in raw:
        faults.add(value)
    vocabulary = read_vocabulary(Path(model_path)) if model_path else Vocabulary()
    asyncio.run(_serve(settings, vocabulary, faults, host, port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
