"""From the text of a command line, a variable or a profile to an option's value, or to what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode

_SUFFIX = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def usage(message: str, remedy: str = "") -> OperatorError:
    """The error of a value that cannot be taken."""
    return OperatorError("usage", message, remedy, ExitCode.USAGE)


def parse_tokens(text: str) -> int:
    """A number of tokens: `10000000`, `10M`, `500k`, `10_000_000`, `1.5M`. Raises OperatorError."""
    match = re.fullmatch(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([kKmMgGbB]?)\s*", text)
    if match is None:
        raise usage(f"{text!r} is not a number of tokens", "write 10000000, 10M or 500k")
    number = match[1].replace("_", "").replace(",", "")
    scaled = float(number) * _SUFFIX[match[2].lower()]
    exact = int(number) * _SUFFIX[match[2].lower()] if "." not in number else round(scaled)
    if "." in number and abs(scaled - exact) > 1e-6:
        raise usage(f"{text!r} is not a whole number of tokens", "write 10000000, 10M or 500k")
    return exact


def parse_count(text: str) -> int:
    """A positive whole number. Raises OperatorError."""
    number = parse_tokens(text)
    if number < 1:
        raise usage(f"{text!r} must be 1 or more")
    return number


def parse_seconds(text: str) -> float:
    """Seconds, 0 or more. Raises OperatorError."""
    return _number(text, 1e7, "number of seconds", "write 120")


def parse_integer(text: str) -> int:
    """Any whole number, for seeds. Raises OperatorError."""
    try:
        return int(text)
    except ValueError:
        raise usage(f"{text!r} is not a whole number") from None


def parse_list(text: str) -> tuple[str, ...]:
    """A comma-separated list; blanks are dropped. Raises OperatorError when nothing is left."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise usage(f"{text!r} names nothing", "write B1,B2 or a folder's name")
    return names


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object. Raises OperatorError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise usage(f"{text!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise usage(f"{text!r} is not a JSON object", 'write {"temperature": 1.0}')
    return value


def parse_switch(text: str) -> bool:
    """A switch given as text, in a variable or a profile: `1`, `true`, `yes`, `on` and their opposites."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("", "0", "false", "no", "off"):
        return False
    raise usage(f"{text!r} is neither true nor false", "write true or false")


def parse_price(text: str) -> float:
    """A price per hour, in the operator's own currency, 0 or more. Raises OperatorError."""
    return _number(text, 1e9, "price per hour", "write 16.5")


def _number(text: str, below: float, what: str, remedy: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < below:
        raise usage(f"{text!r} is not a {what}", remedy)
    return number


def parse_url(text: str) -> str:
    """An `http` or `https` address with a host; a final `/` is dropped. Raises OperatorError."""
    if re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", text) is None:
        raise usage(f"{text!r} is not an http or https URL", "write http://127.0.0.1:30000")
    return text.rstrip("/")


def parse_hook(text: str) -> str:
    """An address to post to, `http` or `https`, perhaps with `slack+` or `ntfy+` before it. Raises OperatorError.

    The address may be a secret in itself, so the message does not repeat it.
    """
    if re.fullmatch(r"(?:(?:slack|ntfy|generic)\+)?https?://[^\s/]+\S*", text) is None:
        raise usage("an address to post to is not an http or https URL", "write https://ntfy.sh/my-topic")
    return text


def parse_secret_url(text: str) -> str:
    """An `http` or `https` address that may be a secret in itself: the message does not repeat it. Raises OperatorError."""
    if re.fullmatch(r"https?://[^\s/]+\S*", text) is None:
        raise usage("the address is not an http or https URL", "write https://checks.example/my-check")
    return text


def parse_period(text: str) -> float:
    """Seconds between two of something, 1 or more. Raises OperatorError."""
    number = parse_seconds(text)
    if number < 1:
        raise usage(f"{text!r} is too often", "write a number of seconds from 1 on")
    return number


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser that takes one of a few words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise usage(f"{text!r} is not allowed here", f"write one of {', '.join(allowed)}")
        return text

    return parse
