"""The stream under SSH: a TCP connection, or a proxy command; with the reason when there is none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from typing import Any

from console.link_errors import ConnectTimeout, HostNotFound, LinkError, ProxyFailed, Refused, Unreachable
from console.pipe import Noise
from console.sshconfig import Hop

_Address = tuple[int, int, int, str, Any]
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


async def dial(hop: Hop, limit_s: float) -> socket.socket:
    """A connected, non-blocking socket to the hop's address; every address of the name gets its share of the time.

    Raises HostNotFound, Refused, Unreachable or ConnectTimeout.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limit_s):
            found = await _look_up(hop)
    except socket.gaierror as error:
        raise HostNotFound(hop.host, str(error.strerror or error)) from None
    except (TimeoutError, UnicodeError):
        raise HostNotFound(hop.host, f"no answer from the name service within {limit_s:g} s") from None
    failures: list[LinkError] = []
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            async with asyncio.timeout(limit_s / len(found)):
                await loop.sock_connect(sock, address)
            return sock
        except BaseException as error:
            sock.close()
            if not isinstance(error, (OSError, TimeoutError)):
                raise
            failures.append(_reason(hop, error, limit_s))
    # A refusal says more than a silence: the host is there.
    raise next((one for one in failures if isinstance(one, Refused)), failures[0])


async def _look_up(hop: Hop) -> list[_Address]:
    """The addresses of the hop's name, asked for in a thread that nobody waits for.

    The loop's own look-up runs in a pool that is waited for at exit, and a name service that hangs
    would keep the console from quitting.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[_Address]] = loop.create_future()

    def settle(found: list[Any] | None, error: Exception | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error is not None else answer.set_result(found or [])

    def ask() -> None:
        family = _FAMILIES.get(hop.family, socket.AF_UNSPEC)
        found: list[Any] | None = None
        failure: Exception | None = None
        try:
            found = socket.getaddrinfo(hop.host, hop.port, family, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failure = error
        # The loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found, failure)

    threading.Thread(target=ask, name="name service", daemon=True).start()
    return await answer


def _reason(hop: Hop, error: OSError | TimeoutError, limit_s: float) -> LinkError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ECONNREFUSED:
        return Refused(hop.where)
    if number in (None, errno.ETIMEDOUT):
        return ConnectTimeout(hop.where, limit_s)
    return Unreachable(hop.where, error.strerror or str(error))


class Proxy:
    """A running ProxyCommand; its other end of the stream is `sock`."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self.sock = sock
        self._process = process
        self._noise = Noise()
        self._drain = asyncio.create_task(self._drain_errors(), name="proxy command's stderr")

    @classmethod
    async def start(cls, hop: Hop) -> Proxy:
        """Start the hop's command as OpenSSH does, by a shell and `exec`. Raises ProxyFailed."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                f"exec {hop.proxy_command}",
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ProxyFailed(hop.where, "the ProxyCommand", error.strerror or str(error)) from None
        finally:
            theirs.close()
        ours.setblocking(False)
        return cls(process, ours)

    async def why(self) -> str:
        """What the command printed and how it ended, for a message."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await self._process.wait()
                await asyncio.wait([self._drain])
        said = "; ".join(self._noise.lines()[-2:])
        code = self._process.returncode
        return said or ("it ended" if code is None else f"it ended with status {code}")

    async def close(self) -> None:
        """End the command."""
        self._drain.cancel()
        if self._process.returncode is None:
            self._process.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._process.wait()

    async def _drain_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 12):
            self._noise.feed(data)
