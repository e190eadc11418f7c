"""What runs now, in the trace: what it would still do if it were left alone, its flags beside those of a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console import text
from console.styled import Span, TraceLine, flow, number, object_of, rows
from remote.text import clean


def running_lines(plan: Mapping[str, Any], width: int) -> list[TraceLine]:
    """What each process that runs now would still do if it were left alone, its flags beside the new ones."""
    lines: list[TraceLine] = []
    names = {str(row.get("name")): clean(row.get("id") or "", 20) for row in rows(plan, "datasets")}
    for process in rows(plan, "running"):
        lines += flow([Span(left_alone_words(process, names), _left_style(process))], width, first=" ", rest="   ")
        told = [Span(part, "dim") for part in _process_words(process, names)]
        lines += flow(told, width, first="   ", rest="   ")
        new = launch_flags(object_of(plan, "options"))
        dropped = [flag for flag in running_flags(process) if flag.split()[0] not in new.split()]
        change = f"restart runs {new}{' (drops ' + ', '.join(dropped) + ')' if dropped else ''}"
        lines += flow([Span(change, "dim")], width, first="   ", rest="   ")
    return lines


def _left_style(process: Mapping[str, Any]) -> str:
    return "warning" if process.get("needless_tokens") != 0 else ""


def left_alone_words(process: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`IF LEFT ALONE pid 911 would write 18.0 M tokens nobody needs (B2 15.0 M, …): 8 h 27 m, 68 GPU-h`."""
    who = f"IF LEFT ALONE pid {text.count(number(process, 'pid')).replace(',', '')}"
    needless = number(process, "needless_tokens")
    if needless is None:
        return f"{who}: what it would still write is not known (its flags or its place cannot be read)"
    if not needless:
        return f"{who} would write nothing beyond the budget"
    parts: list[str] = []
    for folder, beyond in object_of(process, "needless_by").items():
        name = names.get(folder, clean(folder, 40))
        parts.append(f"{name} {text.about_tokens(beyond)}")
    costs = [text.duration(number(process, "needless_s"))] if number(process, "needless_s") is not None else []
    if number(process, "needless_gpu_h") is not None:
        costs.append(text.hours(number(process, "needless_gpu_h"), "GPU-h"))
    price = number(process, "needless_cost")
    if price is not None:
        costs.append(f"cost {price:,.2f}")
    tail = f": {', '.join(costs)}" if costs else "; how long that takes is not known until a speed is measured"
    return f"{who} would write {text.about_tokens(needless)} tokens nobody needs ({', '.join(parts)}){tail}"


def running_flags(process: Mapping[str, Any]) -> list[str]:
    """The flags of a running process that a restart would change."""
    flags = []
    for key, flag in (("max_samples", "--max-samples"), ("token_budget", "--token-budget")):
        if process.get(key) is not None:
            flags.append(f"{flag} {clean(process[key], 40)}")
    return flags


def _process_words(process: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    ours = "started by this console" if process.get("ours") else "not started by this console"
    words = [
        ours,
        *_more_answers(process, names),
        f"it runs {', '.join(running_flags(process)) or 'neither cap nor budget'}",
    ]
    script = process.get("script")
    if script:
        known = process.get("knows_token_budget")
        knows = "knows" if known is True else "does not know" if known is False else "may or may not know"
        digest = clean(process.get("script_digest") or "", 12)
        words.append(f"{clean(script, 80)}{' ' + digest if digest else ''} {knows} --token-budget")
    if process.get("respawns"):
        words.append(f"pid {clean(process.get('parent_pid'), 12)} may start it again")
    return words


def _more_answers(process: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """How many more answers it would take of those datasets that have enough already."""
    more, needless = object_of(process, "more_answers"), object_of(process, "needless_by")
    told = [
        f"{text.count(more[folder])} more answers of {names.get(folder, clean(folder, 40))}"
        for folder in needless
        if folder in more
    ]
    return [", ".join(told)] if told else []


def launch_flags(options: Mapping[str, Any]) -> str:
    """The flags that a restart would give, those that differ from the defaults."""
    budget = object_of(options, "token_budget")
    per = object_of(budget, "per")
    shown = [text.limit(number(budget, "default")).replace(" ", "")] if budget.get("default") != 0 or not per else []
    shown += [f"{clean(name, 40)}={text.limit(float(tokens)).replace(' ', '')}" for name, tokens in per.items()]
    flags = [f"--token-budget {','.join(shown).replace('none', '0')}"]
    if options.get("max_samples") is not None:
        flags.append(f"--max-samples {clean(options['max_samples'], 20)}")
    if options.get("datasets"):
        flags.append(f"--datasets {clean(','.join(map(str, options['datasets'])), 80)}")
    if options.get("shuffle") is not None:
        flags.append(f"--shuffle {clean(options['shuffle'], 20)}")
    if options.get("accept"):
        flags += [f"--accept {clean(code, 60)}" for code in options["accept"]]
    flags.append(f"--concurrency {clean(options.get('concurrency'), 20)}")
    return " ".join(flags)
