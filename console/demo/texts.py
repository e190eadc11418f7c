"""What the demo's datasets ask and what its model once answered: short texts of each kind, made from a seed.

They are read on the screens (a decoded training row above all), so they read like the sources they stand for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

FUNCTIONS = ("merge_intervals", "count_inversions", "parse_duration", "topological_order", "rotate_matrix", "group_anagrams",
             "flatten", "longest_run", "rolling_mean", "edit_distance", "find_cycle", "chunk_pairs")  # fmt: skip
STRUCTURES = ("list of integers", "sorted array", "binary tree", "directed graph", "string", "matrix", "stream of events",
              "dictionary of lists", "linked list", "set of intervals")  # fmt: skip
RULES = ("ignore duplicates", "keep the original order", "use constant extra memory", "return None for empty input",
         "run in O(n log n)", "handle negative numbers", "raise ValueError on bad input", "avoid recursion")  # fmt: skip
LANGUAGES = ("Python", "Rust", "Go", "TypeScript", "C++", "Java")
CITIES = ("Lisbon", "Osaka", "Nairobi", "Montréal", "Tromsø", "Valparaíso", "Łódź", "Hanoi")
TOPICS = ("tides", "compound interest", "sourdough bread", "bird migration", "public libraries", "night trains",
          "houseplants", "the Silk Road", "fair scheduling", "mountain weather")  # fmt: skip
MOODS = ("for a curious child", "for a tired engineer", "in a friendly letter", "as a short speech", "in plain words",
         "with one example from history")  # fmt: skip
NUMBERS = ("integers", "primes", "perfect squares", "even numbers", "triangular numbers")
MODULES = (
    "session store",
    "retry queue",
    "CSV importer",
    "date parser",
    "cache layer",
    "upload handler",
    "rate limiter",
)
FAULTS = ("drops the last row", "raises KeyError when the cache is cold", "counts daylight saving twice",
          "never releases its lock", "returns stale entries after a restart", "fails on names with an accent")  # fmt: skip
STEPS = ("First look at the smallest case and check that it holds.", "Sort the input once, so that neighbours decide.",
         "Keep a running total and compare it with the best so far.", "The remaining cases follow by symmetry.",
         "Each element is visited once, so the cost is linear.", "An empty input needs no work at all.",
         "We test the boundary before we move it.", "That leaves one case, and it cannot occur twice.")  # fmt: skip
CODE = ("    best = None\n", "    for item in values:\n", "        if item in seen:\n            continue\n",
        "        seen.add(item)\n", "        total += item\n", "    while left < right:\n", "        left += 1\n",
        "    return sorted(result)\n", "    result.append((start, end))\n", "    if not values:\n        return None\n")  # fmt: skip

TOOLS: tuple[dict[str, Any], ...] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": text,
            "parameters": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]},
        },
    }
    for name, text, key in (
        ("get_weather", "Weather of a city now", "city"),
        ("convert_currency", "Convert an amount to another currency", "amount"),
        ("find_train", "Next train to a city", "city"),
        ("create_reminder", "Remind the user of something", "text"),
    )
)


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _said(who: str, value: str) -> dict[str, str]:
    return {"from": who, "value": value}


def _coding_task(draw: random.Random) -> str:
    return (
        f"Write a {draw.choice(LANGUAGES)} function `{draw.choice(FUNCTIONS)}` that takes a {draw.choice(STRUCTURES)}. "
        f"It must {draw.choice(RULES)} and {draw.choice(RULES)}. Case {draw.randrange(10_000)}."
    )


def _glaive(draw: random.Random) -> dict[str, Any]:
    city = draw.choice(CITIES)
    ask = draw.choice((f"What is the weather in {city}?", f"When does the next train to {city} leave?",
                       f"Convert {draw.randrange(5, 900)} euros for my trip to {city}.",
                       f"Remind me to pack for {city} on day {draw.randrange(1, 29)}."))  # fmt: skip
    system = "You are a helpful assistant with access to functions. Use them when they help."
    return {"messages": [_turn("system", system), _turn("user", ask)], "tools": draw.sample(TOOLS, 2)}


def _opencode(draw: random.Random) -> dict[str, Any]:
    return {"messages": [_turn("user", _coding_task(draw))]}


def _magicoder(draw: random.Random) -> dict[str, Any]:
    fragment = "".join(draw.sample(CODE, 3))
    return {
        "prompt": f"Take inspiration from this fragment:\n```python\ndef {draw.choice(FUNCTIONS)}(values):\n{fragment}```\n"
        f"Design a self-contained problem on a {draw.choice(STRUCTURES)}, then solve it. Seed {draw.randrange(10_000)}."
    }


def _mixture(draw: random.Random) -> dict[str, Any]:
    limit = draw.randrange(20, 5000)
    ask = (
        f"How many {draw.choice(NUMBERS)} below {limit} leave the remainder {draw.randrange(1, 9)} when divided by 11?"
    )
    return {"conversations": [_said("human", ask), _said("gpt", f"There are {limit // 11} of them.")]}


def _openthoughts(draw: random.Random) -> dict[str, Any]:
    system = "Think step by step: explore, verify, then give the final solution."
    ask = f"Prove that the sum of the first n {draw.choice(NUMBERS)} has the parity of n + {draw.randrange(2, 900)}, or refute it."
    return {"conversations": [_said("system", system), _said("human", ask), _said("gpt", draw.choice(STEPS))]}


def _ultrachat(draw: random.Random) -> dict[str, Any]:
    topic = draw.choice(TOPICS)
    return {
        "messages": [
            _turn("user", f"Tell me about {topic} {draw.choice(MOODS)}."),
            _turn("assistant", f"Gladly. {draw.choice(STEPS)} That is the heart of {topic}."),
            _turn("user", f"Go on, and compare it with {draw.choice(TOPICS)} in {draw.randrange(3, 40)} sentences."),
            _turn("assistant", draw.choice(STEPS)),
        ]
    }


def _sharegpt(draw: random.Random) -> dict[str, Any]:
    topic = draw.choice(TOPICS)
    turns = [
        _said(
            "human", f"I have {draw.randrange(2, 90)} minutes. Plan an evening around {topic} in {draw.choice(CITIES)}."
        )
    ]
    if draw.random() < 0.5:
        turns += [_said("gpt", draw.choice(STEPS)), _said("human", f"Make it cheaper, {draw.choice(MOODS)}.")]
    return {"conversations": turns}


def _sweagent(draw: random.Random) -> dict[str, Any]:
    module, fault = draw.choice(MODULES), draw.choice(FAULTS)
    system = "You are an autonomous programmer in a terminal. Reply with one command at a time."
    issue = f"ISSUE {draw.randrange(10, 9999)}: the {module} {fault}. Reproduce it, fix it, add a test. {draw.choice(STEPS)}"
    listing = f"$ ls\nREADME.md  setup.py  src/{module.replace(' ', '_')}.py  tests/"
    return {"messages": [_turn("system", system), _turn("user", f"{issue}\n{listing}")]}


_PROMPTS = {
    "B1": _glaive,
    "B2": _opencode,
    "B3": _magicoder,
    "B4": _mixture,
    "B5": _openthoughts,
    "B6": _ultrachat,
    "B7": _sharegpt,
    "B8": _sweagent,
}


def prompt(dataset: str, draw: random.Random) -> dict[str, Any]:
    """One prompt of a dataset (`B1` … `B8`) in its source's form, without `sample_id`."""
    return _PROMPTS[dataset](draw)


def answer(dataset: str, draw: random.Random) -> Iterator[str]:
    """Endless pieces of an answer of the kind a dataset asks for; thinking first, then the answer itself."""
    for _ in range(draw.randrange(2, 9)):
        yield draw.choice(STEPS) + " "
    yield "</think>"
    if dataset == "B1":
        tool = draw.choice(TOOLS)["function"]["name"]
        yield f'<tool_call>{{"name": "{tool}", "arguments": {{"city": "{draw.choice(CITIES)}"}}}}</tool_call>\n'
    while True:
        if dataset in ("B1", "B2", "B3") and draw.random() < 0.5:
            yield f"```python\ndef {draw.choice(FUNCTIONS)}(values):\n" + "".join(draw.sample(CODE, 5)) + "```\n"
        else:
            rule = draw.choice(RULES)
            yield f"{draw.choice(STEPS)} {rule[0].upper()}{rule[1:]}. "


def corpus() -> Iterator[str]:
    """What the demo's tokenizer is trained on: the texts above."""
    draw = random.Random(0)
    for dataset in _PROMPTS:
        for _ in range(60):
            yield str(prompt(dataset, draw))
            pieces = answer(dataset, draw)
            yield "".join(next(pieces) for _ in range(24))
