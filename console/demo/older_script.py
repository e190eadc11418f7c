"""Generate answers for the prepared datasets (older version: caps samples, knows nothing of tokens).

The demo copies this file to its container as run_inference.py and starts it by hand, as somebody once did: it takes
the datasets in order, from B2 on, answers up to --max-samples prompts of each through the engine, and appends to
raw_responses.jsonl, which it keeps open. Standard library alone; it imports nothing of ours.
"""

import argparse
import http.client
import json
import os
import queue
import signal
import sys
import threading
import time
import urllib.parse
from pathlib import Path

DATASETS = ("B2_opencodeinstruct", "B3_magicoder", "B4_mixturethoughts", "B5_openthoughts", "B6_ultrachat",
            "B7_sharegpt", "B8_sweagent")  # fmt: skip
stopping = threading.Event()


def ask(engine, prompt_ids, limit):
    """One answer of the engine, or None when it gave none."""
    connection = http.client.HTTPConnection(engine.hostname, engine.port, timeout=600)
    try:
        body = {
            "input_ids": prompt_ids,
            "sampling_params": {"max_new_tokens": limit, "temperature": 1.0, "top_p": 0.95},
        }
        connection.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        value = json.loads(response.read())
        if response.status != 200:
            return None
        return value
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def record_of(sample_id, value):
    """The line to append, or None for an answer that was cut off."""
    meta = value["meta_info"]
    finish = (meta.get("finish_reason") or {}).get("type")
    if finish not in ("stop", "length"):
        return None
    return {
        "sample_id": sample_id,
        "output_ids": value["output_ids"],
        "prompt_tokens": meta["prompt_tokens"],
        "completion_tokens": meta["completion_tokens"],
        "finish_reason": finish,
    }


def answered_ids(path):
    """The ids that have a line already."""
    if not path.exists():
        return set()
    with open(path, encoding="utf-8") as lines:
        return {json.loads(line)["sample_id"] for line in lines if line.endswith("\n") and line.strip()}


def work(jobs, out, lock, args, engine):
    """Answer prompts until the queue is empty or the process is told to stop."""
    while not stopping.is_set():
        try:
            sample_id, prompt_ids = jobs.get_nowait()
        except queue.Empty:
            return
        value = ask(engine, prompt_ids, args.max_new_tokens)
        if value is None:
            # The engine is away: come back to this prompt later.
            jobs.put((sample_id, prompt_ids))
            stopping.wait(2.0)
            continue
        record = record_of(sample_id, value)
        if record is None or stopping.is_set():
            continue
        with lock:
            out.write(json.dumps(record) + "\n")
            out.flush()


def run_dataset(folder, args, engine):
    """Bring one dataset to --max-samples answers."""
    path = Path(args.root) / folder / "raw_responses.jsonl"
    prompts = Path(args.prompt_ids) / f"{folder}.jsonl"
    done = answered_ids(path)
    jobs = queue.Queue()
    with open(prompts, encoding="utf-8") as lines:
        waiting = [json.loads(line) for line in lines]
    room = args.max_samples - len(done)
    for item in [item for item in waiting if item["sample_id"] not in done][: max(0, room)]:
        jobs.put((item["sample_id"], item["input_ids"]))
    print(f"{time.strftime('%H:%M:%S')} {folder}: {len(done)} answers, {jobs.qsize()} to go", flush=True)
    if jobs.empty():
        return
    lock = threading.Lock()
    with open(path, "a", encoding="utf-8") as out:
        threads = [
            threading.Thread(target=work, args=(jobs, out, lock, args, engine), daemon=True)
            for _ in range(args.concurrency)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not stopping.is_set():
                thread.join(0.5)
            if stopping.is_set():
                break
        with lock:
            out.flush()
            if stopping.is_set():
                # Threads may still wait for the engine; the file is whole, so leave at once.
                os._exit(130)


def main():
    """Parse, and take the datasets one after the other."""
    parser = argparse.ArgumentParser(description="Generate answers for the prepared datasets.")
    parser.add_argument("--root", required=True)
    parser.add_argument("--engine-url", default="http://127.0.0.1:30000")
    parser.add_argument("--prompt-ids", default=str(Path(__file__).resolve().parent / "prompt_ids"))
    parser.add_argument("--max-samples", type=int, default=7000)
    parser.add_argument("--max-new-tokens", type=int, default=16384)
    parser.add_argument("--concurrency", type=int, default=4)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    engine = urllib.parse.urlsplit(args.engine_url)
    for folder in DATASETS:
        run_dataset(folder, args, engine)
    print("all datasets done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
