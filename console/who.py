"""Who acts: the local user and host, as every audit entry on the container names them."""

from __future__ import annotations

import getpass
import os
import socket

from remote.text import clean


def operator() -> dict[str, str]:
    """`{"user", "host"}` of whoever sits at this console; never raises."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return {"user": clean(user, 64), "host": clean(socket.gethostname(), 64)}


def operator_text() -> str:
    """`user@host`, for the container's records of who did what."""
    who = operator()
    return f"{who['user']}@{who['host']}"
