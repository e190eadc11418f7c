"""Whatever the login shell and its start-up files do: we are in, or told why not."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from console import bootstrap, link
from console.link_errors import ShellEnded, StartTimeout, TerminalOnly
from console.ship import Package
from tests.link.conftest import Connect
from tests.support.needs import find, needs, needs_root
from tests.support.sshd import Server, throwaway_user

NOISE = 'printf "Welcome \\377\\376 to \\033[31mgpu-17\\033[0m\\n"; printf "no newline at the end"\n'
HOSTILE = (
    "alias python3=false\nalias env=false\nalias exec=false\n"
    "python3() { echo fooled; }\nexport -f python3 2>/dev/null\n"
    "export PYTHONHOME=/nowhere PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere\nset -e\ncd /\necho noise >&2\n"
)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "dash", "sh"])
async def test_every_login_shell_lets_the_agent_start(shell: str, server: Server, connected: Connect) -> None:
    needs_root("useradd")
    needs(shell)
    rc = {".bashrc": NOISE, ".zshenv": NOISE, ".config/fish/config.fish": NOISE, ".profile": NOISE}
    with throwaway_user(str(find(shell)), rc) as user:
        async with connected(server.target(user.name)) as pipe:
            assert pipe.sent and pipe.place is not None and pipe.place.startswith(str(user.home))
            # dash reads no start-up file for a command; the others' words are kept, cleaned, and come before ours.
            said = " ".join(pipe.noise)
            assert ("gpu-17" in said) == (shell in ("bash", "zsh", "fish"))
            assert "\x1b" not in said
        async with connected(server.target(user.name)) as pipe:
            assert not pipe.sent


async def test_a_hostile_bashrc_changes_nothing(server: Server, connected: Connect) -> None:
    needs_root("useradd")
    with throwaway_user("/bin/bash", {".bashrc": HOSTILE}) as user:
        async with connected(server.target(user.name)) as pipe:
            assert pipe.ready["flags"] == [1, 1], "isolated, and no byte code written"
            await pipe.write(b"environ\n")
            assert "PYTHONHOME" in json.loads(await pipe.read_line())


@pytest.mark.parametrize(
    ("shell", "bashrc", "quoted"),
    [
        ("/usr/sbin/nologin", "", "not available"),
        ("/bin/false", "", "printed nothing"),
        ("/bin/bash", "echo gone away; exit 3\n", "exit status 3"),
        ("/bin/bash", "exec tmux\n", "not a terminal"),
        ("/bin/bash", "kill -9 $$\n", "KILL"),
        ("/bin/bash", "echo ready for you; exec /bin/sh -s\n", "another program"),
        ("/bin/bash", "exec cat\n", "another program"),
    ],
)
async def test_a_shell_that_ends_first_is_named_with_its_words(
    shell: str, bashrc: str, quoted: str, server: Server, shipped: Package
) -> None:
    needs_root("useradd")
    if "tmux" in bashrc:
        needs("tmux")
    with throwaway_user(shell, {".bashrc": bashrc}) as user, pytest.raises(ShellEnded) as told:
        await link.connect(server.target(user.name), shipped=shipped)
    assert quoted in str(told.value)
    assert "login shell" in str(told.value)


async def test_a_proxy_that_wants_a_terminal_is_recognised(server: Server, shipped: Package) -> None:
    needs_root("useradd")
    words = 'echo "Error: Your SSH client doesn\'t support PTY"; exit 1\n'
    with throwaway_user("/bin/bash", {".bashrc": words}) as user, pytest.raises(TerminalOnly) as told:
        await link.connect(server.target(user.name), shipped=shipped)
    assert "direct address" in str(told.value)


async def test_a_start_up_file_that_waits_for_ever_has_a_deadline(
    server: Server, shipped: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_root("useradd")
    monkeypatch.setattr(
        bootstrap.start_agent, "__kwdefaults__", {**bootstrap.start_agent.__kwdefaults__, "start_limit_s": 1.0}
    )
    waits = {".bashrc": "echo one moment please\nsleep 1000\n"}
    with throwaway_user("/bin/bash", waits) as user, pytest.raises(StartTimeout) as told:
        await link.connect(server.target(user.name), shipped=shipped)
    assert "one moment please" in str(told.value)


def test_the_command_survives_every_shell_quoting() -> None:
    inside = bootstrap.COMMAND.removeprefix("exec /bin/sh -c '").removesuffix("'")
    assert inside == bootstrap.SHELL_ARGV[2]
    assert not set("'\\!\n") & set(inside)
    assert len(bootstrap.COMMAND) < 1_024, "dropbear's oldest limit"


def test_a_shell_gets_back_what_the_command_says() -> None:
    for name in ("sh", "bash", "dash", "zsh", "fish", "tcsh"):
        shell = shutil.which(name)
        if shell is not None:
            words = bootstrap.COMMAND.replace("exec /bin/sh -c", "printf %s", 1)
            done = subprocess.run([shell, "-c", words], capture_output=True, text=True, timeout=20, check=True)
            assert done.stdout == bootstrap.SHELL_ARGV[2], name
