"""How this program is called from here: what a message tells somebody to type must be there when it is typed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

NAME = "eagle3-console"


def program() -> str:
    """`eagle3-console` where the shell finds it, else the path by which it was started, the shorter of both ways to write it."""
    if shutil.which(NAME) or os.path.basename(sys.argv[0]) != NAME:
        return NAME
    path = os.path.abspath(sys.argv[0])
    try:
        return shlex.quote(min(os.path.relpath(path), path, key=len))
    except OSError:  # the folder that we are in is gone
        return shlex.quote(path)
