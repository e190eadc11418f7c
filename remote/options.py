"""The options, one table: it feeds both command lines, profiles, `EAGLE3_…` and the reference in docs.

A value travels as `Options`, whole, from the console to the agent to `run.json` to the
generator. Secrets are no options: an API key travels beside them and is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from remote.errors import OperatorError
from remote.option_values import (
    one_of,
    parse_count,
    parse_hook,
    parse_integer,
    parse_list,
    parse_object,
    parse_period,
    parse_price,
    parse_seconds,
    parse_secret_url,
    parse_switch,
    parse_tokens,
    parse_url,
    usage,
)

DEFAULT_ROOT = "/data/eagle3/synth_100k/prepared"
DEFAULT_BUDGET = 10_000_000


def short_tokens(tokens: int) -> str:
    """A number of tokens as an operator types it, exactly: `10M`, `500k`, `107250`."""
    for scale, suffix in ((10**6, "M"), (10**3, "k")):
        if tokens and tokens % scale == 0:
            return f"{tokens // scale}{suffix}"
    return str(tokens)


@dataclass(frozen=True)
class Budget:
    """Completion tokens to reach per dataset: a default, and exceptions by id or folder name. 0 is none."""

    default: int = DEFAULT_BUDGET
    per: Mapping[str, int] = field(default_factory=dict)

    def of(self, folder: str) -> int:
        """The budget of one dataset, in tokens; a folder's own name wins over its id."""
        return self.per.get(folder, self.per.get(folder.split("_", 1)[0], self.default))

    def __str__(self) -> str:
        """The text that `parse_budget` reads back to the same value."""
        parts = [f"{name}={short_tokens(tokens)}" for name, tokens in self.per.items()]
        if self.default != DEFAULT_BUDGET or not parts:
            parts.insert(0, short_tokens(self.default))
        return ",".join(parts)


def is_named(folder: str, names: Collection[str]) -> bool:
    """Whether a list of datasets takes this one in, by its folder's name or its id."""
    return folder in names or folder.split("_", 1)[0] in names


def parse_budget(text: str) -> Budget:
    """`10M`, or `B4=20M,B5=5M` for some, or `8M,B4=20M` for both. Raises OperatorError."""
    default = DEFAULT_BUDGET
    per: dict[str, int] = {}
    plain = 0
    for part in text.split(",") if "=" in text else [text]:
        name, equals, value = part.partition("=")
        if not equals:
            plain += 1
            default = parse_tokens(name)
        elif not name.strip():
            raise usage(f"{part!r} names no dataset", "write B4=20M")
        else:
            per[name.strip()] = parse_tokens(value)
    if plain > 1:
        raise usage(f"{text!r} gives more than one default budget", "write 8M,B4=20M")
    return Budget(default, per)


@dataclass(frozen=True)
class Option:
    """One row of the table.

    `parse` turns the text of a command line, a variable or a profile into the value;
    `switch` options take no text; `many` options may be given more than once; `side` says
    who takes it on its command line: `both` or the `console` alone; `profile` ones have no flag,
    because their values are secrets that a process list would show.
    """

    name: str
    metavar: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    switch: bool = False
    many: bool = False
    side: str = "both"

    @property
    def flag(self) -> str:
        """`--token-budget` of `token_budget`."""
        return "--" + self.name.replace("_", "-")

    def read(self, given: Any, where: str) -> Any:
        """The value of what was given as text, a switch's bool, or a list of texts for `many`.

        Raises OperatorError (usage) that begins with `where`: the flag, variable or key.
        """
        try:
            if self.switch:
                return given if isinstance(given, bool) else parse_switch(given)
            if self.many:
                return tuple(self.parse(text) for text in ([given] if isinstance(given, str) else given))
            return self.parse(given)
        except OperatorError as error:
            raise usage(f"{where}: {error.message}", error.remedy) from None

    @property
    def variable(self) -> str:
        """`EAGLE3_TOKEN_BUDGET` of `token_budget`."""
        return "EAGLE3_" + self.name.upper()


TABLE: tuple[Option, ...] = (
    Option("root", "DIR", str, DEFAULT_ROOT, "folder of the datasets, on the container"),
    Option(
        "token_budget",
        "N",
        parse_budget,
        Budget(),
        "completion tokens for each dataset: 10M, 500k, B4=20M,B5=5M; 0 is none",
    ),
    Option("max_samples", "N", parse_count, None, "at most N prompts of a dataset are answered"),
    Option("datasets", "LIST", parse_list, None, "ids or folder names, comma-separated; all when not given"),
    Option("engine_url", "URL", parse_url, "http://127.0.0.1:30000", "SGLang, as the container reaches it"),
    Option("api_key_file", "FILE", str, None, "file on the container with the engine's API key"),
    Option(
        "model_path",
        "DIR",
        str,
        None,
        "the model's folder on the container: tokenizer, vocabulary, end-of-sequence ids, context",
    ),
    Option("trust_remote_code", "", str, False, "let the tokenizer's own Python code run", switch=True),
    Option(
        "python", "PATH", str, None, "Python on the container that runs generate and retokenize; the first that works"
    ),
    Option("concurrency", "N", parse_count, 64, "requests in flight"),
    Option("max_new_tokens", "N", parse_count, 16_384, "longest answer, clamped to the context"),
    Option(
        "sampling",
        "JSON",
        parse_object,
        None,
        "sampling parameters passed to the engine; the model's own when not given",
    ),
    Option("template_kwargs", "JSON", parse_object, None, "passed to the chat template, such as thinking on or off"),
    Option("shuffle", "SEED", parse_integer, None, "take prompts in a seeded random order; file order when not given"),
    Option(
        "on_length",
        "keep|drop",
        one_of("keep", "drop"),
        "keep",
        "what tokenizing does with answers that were cut by length",
    ),
    Option("max_seq_len", "N", parse_count, None, "longest row to write when tokenizing"),
    Option(
        "retokenize",
        "auto|always|never",
        one_of("auto", "always", "never"),
        "auto",
        "when to rebuild tokenized_data.jsonl",
    ),
    Option("drain_s", "S", parse_seconds, 120.0, "seconds a stop waits for answers in flight"),
    Option("retry_failed", "", str, False, "try prompts again that were set aside", switch=True),
    Option("accept", "CODE", str, (), "pass one named problem; recorded", many=True),
    Option("read_only", "", str, False, "change nothing on the container", switch=True),
    Option("price_per_hour", "PRICE", parse_price, None, "what the container costs an hour, for the totals"),
    Option(
        "notify",
        "URL",
        parse_hook,
        (),
        "addresses to post to: the container when a run starts, stalls or ends, watch --notify the alerts. A plain webhook "
        "gets JSON, Slack and ntfy their own shapes; prefix slack+ or ntfy+ where the address does not say",
        many=True,
        side="profile",
    ),
    Option(
        "heartbeat",
        "URL",
        parse_secret_url,
        None,
        "an address that watch --notify requests while it sees the container live: a dead-man's check calls when it stops",
        side="profile",
    ),
    Option("heartbeat_s", "S", parse_period, 60.0, "seconds between two heartbeats", side="profile"),
    Option("config", "FILE", str, None, "settings file of the console", side="console"),
    Option("identity", "FILE", str, None, "SSH private key", side="console"),
    Option("known_hosts", "FILE", str, None, "SSH known hosts file", side="console"),
)


@dataclass(frozen=True)
class Options:
    """The options with their values; field names are those of the table."""

    root: str = DEFAULT_ROOT
    token_budget: Budget = field(default_factory=Budget)
    max_samples: int | None = None
    datasets: tuple[str, ...] | None = None
    engine_url: str = "http://127.0.0.1:30000"
    api_key_file: str | None = None
    model_path: str | None = None
    trust_remote_code: bool = False
    python: str | None = None
    concurrency: int = 64
    max_new_tokens: int = 16_384
    sampling: Mapping[str, Any] | None = None
    template_kwargs: Mapping[str, Any] | None = None
    shuffle: int | None = None
    on_length: str = "keep"
    max_seq_len: int | None = None
    retokenize: str = "auto"
    drain_s: float = 120.0
    retry_failed: bool = False
    accept: tuple[str, ...] = ()
    read_only: bool = False
    price_per_hour: float | None = None
    notify: tuple[str, ...] = ()

    def selects(self, folder: str) -> bool:
        """Whether `--datasets` takes this dataset in."""
        return self.datasets is None or is_named(folder, self.datasets)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is its inverse."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Budget):
                value = {"default": value.default, "per": dict(value.per)}
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            out[item.name] = value
        return out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Options:
        """Rebuild what `to_json` wrote. Unknown keys are ignored (a newer console's);
        a value of the wrong type raises OperatorError and names its key."""
        known = {item.name: item for item in fields(cls)}
        taken: dict[str, Any] = {}
        for name, raw in value.items():
            if name not in known:
                continue
            taken[name] = _from_json_value(name, raw)
        return replace(cls(), **taken)


_ALLOWED_TYPES: dict[str, tuple[type, ...]] = {
    "max_samples": (int, type(None)),
    "concurrency": (int,),
    "max_new_tokens": (int,),
    "shuffle": (int, type(None)),
    "max_seq_len": (int, type(None)),
    "drain_s": (int, float),
    "price_per_hour": (int, float, type(None)),
    "trust_remote_code": (bool,),
    "retry_failed": (bool,),
    "read_only": (bool,),
    "sampling": (dict, type(None)),
    "template_kwargs": (dict, type(None)),
    "datasets": (list, type(None)),
    "accept": (list,),
    "notify": (list,),
    "token_budget": (dict,),
    "root": (str,),
    "engine_url": (str,),
    "on_length": (str,),
    "retokenize": (str,),
}


def _budget_from_json(raw: Any) -> Budget:
    default, per = raw.get("default"), raw.get("per", {})
    numbers = [default, *per.values()] if isinstance(per, dict) else [None]
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in numbers):
        raise usage(f"option token_budget has a value of the wrong type: {raw!r}")
    return Budget(default, dict(per))


def _from_json_value(name: str, raw: Any) -> Any:
    allowed = _ALLOWED_TYPES.get(name, (str, type(None)))
    if not isinstance(raw, allowed) or (isinstance(raw, bool) and bool not in allowed):
        raise usage(f"option {name} has a value of the wrong type: {raw!r}")
    if name == "token_budget":
        return _budget_from_json(raw)
    if isinstance(raw, list):
        return tuple(str(item) for item in raw)
    return raw
