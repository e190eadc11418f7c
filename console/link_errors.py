"""What can go wrong between the console and the container: one class a cause, one sentence each.

Imports no SSH library, so that the command line and the screens can name these for free.
`permanent` says that trying again by itself is useless: a person must act first. `network` says that no server was
reached at all: it may be there any moment, and trying costs it nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from remote.errors import OperatorError
from remote.text import clean


class LinkError(OperatorError):
    """The link could not be made, or ended. `details` holds cleaned lines for a closer look, newest last."""

    permanent = True
    network = False

    def __init__(self, code: str, message: str, remedy: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(code, message, remedy)
        self.details = tuple(details)


class HostNotFound(LinkError):
    """The name resolves to no address."""

    permanent = False
    network = True

    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            "host-not-found",
            f"no address is known for {clean(host)} ({clean(why, 120)})",
            "check the name, and that this machine is online",
        )


class Refused(LinkError):
    """Nothing listens on the port, or not yet: a container that starts."""

    permanent = False
    network = True

    def __init__(self, where: str) -> None:
        super().__init__(
            "refused",
            f"{where} refused the connection: no SSH server listens there",
            "check the port, and that the container is up",
        )


class Unreachable(LinkError):
    """The network has no way there."""

    permanent = False
    network = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "unreachable",
            f"{where} cannot be reached from here ({clean(why, 120)})",
            "check this machine's network or VPN",
        )


class ConnectTimeout(LinkError):
    """No answer to the connection attempt."""

    permanent = False
    network = True

    def __init__(self, where: str, seconds: float) -> None:
        super().__init__(
            "timeout",
            f"{where} did not answer within {seconds:g} s",
            "check the address, a firewall or VPN, and that the container is up",
        )


class NotSsh(LinkError):
    """Something accepted the connection and did not speak SSH."""

    permanent = False

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "no-banner",
            f"{where} took the connection but did not speak SSH ({clean(why, 160)})",
            "check that the port is the SSH port; a server that is overloaded or starting also does this",
        )


class ServerBusy(LinkError):
    """An SSH server that turned us away before it greeted, and said why."""

    permanent = False

    def __init__(self, where: str, said: str) -> None:
        super().__init__(
            "busy",
            f"{where} takes no connection from here just now (it said: {clean(said, 160)})",
            "too many are signing in at once (MaxStartups), or failed logins keep this address away "
            "(PerSourcePenalties): it is tried again by itself",
        )


class BrokenOff(LinkError):
    """A server that greeted us and then went silent or hung up before its key could be checked."""

    permanent = False

    def __init__(self, where: str, identification: str, why: str) -> None:
        super().__init__(
            "broken-off",
            f"{where} speaks SSH ({clean(identification, 80)}) but broke off during the key exchange ({clean(why, 160)})",
            "the server may be overloaded, or keep this address away after failed logins (PerSourcePenalties): "
            "wait a minute; what its own log says of it counts",
        )


class NoCommonAlgorithm(LinkError):
    """The two sides share no cipher, key exchange or host key type."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "no-common-algorithm",
            f"{where} and this console share no algorithm ({clean(why, 400)})",
            "see Ciphers, KexAlgorithms and HostKeyAlgorithms in your ssh configuration, or update the server",
        )


class HostKeyUnknown(LinkError):
    """The host's key was never seen: it is shown, and taken only on an explicit yes."""

    def __init__(self, host: str, fingerprint: str, key_line: str, pin_file: str) -> None:
        super().__init__(
            "host-key-unknown",
            f"the key of {host} is not known yet: {fingerprint}",
            "compare it with what the provider shows, then accept it in the console or by signing in once with ssh",
        )
        self.host = host
        self.fingerprint = fingerprint
        self.key_line = key_line
        self.pin_file = pin_file


class HostKeyChanged(LinkError):
    """The host shows another key than the one that is known: refused."""

    def __init__(self, host: str, old: Sequence[str], new: str, remove: Sequence[str]) -> None:
        commands = " && ".join(remove)
        super().__init__(
            "host-key-changed",
            f"the key of {host} CHANGED: known is {', '.join(old)}, shown is {new}; nothing was sent",
            f"if the container was recreated, run {commands} and connect again; else somebody may be in between",
        )
        self.host = host
        self.old = tuple(old)
        self.new = new
        self.remove = tuple(remove)


class HostKeyRevoked(LinkError):
    """The known hosts file marks the key as revoked."""

    def __init__(self, host: str, fingerprint: str) -> None:
        super().__init__(
            "host-key-revoked",
            f"the key of {host} is revoked in your known hosts file: {fingerprint}",
            "ask who runs this host before going on",
        )


class HostCertificateInvalid(LinkError):
    """The host showed a certificate of a trusted authority that does not hold."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            "host-certificate",
            f"the host certificate of {host} is not valid ({clean(why, 160)})",
            "have it renewed by whoever runs this host; nothing was sent",
        )


class NotLetIn(LinkError):
    """The server took none of our keys, and no password. `password` is a `console.passwords.Outcome`."""

    def __init__(
        self,
        user: str,
        where: str,
        tried: Sequence[str],
        too_many: bool = False,
        by_key: bool = True,
        password: str = "not-taken",
    ) -> None:
        keys = f" with these keys: {', '.join(tried)}" if tried else ""
        nor = f"; nor did it take these keys: {', '.join(tried)}" if tried else ""
        if too_many and password == "wrong":
            message = f"{where} gave up after too many passwords and keys for {user}"
            remedy = "check the password with the provider; connecting again asks for it"
        elif too_many:
            message = f"{where} gave up after too many keys for {user}; tried {', '.join(tried) or 'none'}"
            remedy = "name the right key with -i (or IdentitiesOnly yes in your ssh configuration)"
        elif password == "wrong":
            message = f"{where} did not take the password that was given for {user}{nor}"
            remedy = "check it with the provider; connecting again asks for it"
        elif password == "declined":
            message = f"{where} does not let {user} in{keys}, and no password was given"
            remedy = "connecting again asks for it; a key of yours there (ssh-copy-id) needs none"
        elif password == "unasked":
            only = "" if by_key else "takes no keys and "
            message = f"{where} {only}would let {user} in by password, and nobody is here to be asked for it"
            message += nor
            remedy = "run this in a terminal or open the console, which ask; or add a key of yours there (ssh-copy-id)"
        elif not by_key:
            message = f"{where} offers {user} no way to sign in by key or password"
            remedy = "allow keys there (PubkeyAuthentication yes) and add yours"
        elif tried:
            message = f"{where} does not let {user} in{keys}"
            remedy = "add one of their public halves to the container, or name the right key with --identity"
        else:
            message = f"{where} does not let {user} in, and there is no key to try here"
            remedy = "make one with ssh-keygen -t ed25519 and add its public half to the container"
        super().__init__("not-let-in", message, remedy)
        self.tried = tuple(tried)


class PassphraseNeeded(LinkError):
    """A private key is encrypted and nobody gave its passphrase."""

    def __init__(self, path: str, wrong: bool = False) -> None:
        what = "the passphrase given for it was wrong" if wrong else "it is protected by a passphrase"
        super().__init__(
            "passphrase-needed",
            f"the key {clean(path)} could not be used: {what}",
            f"run ssh-add {clean(path)} first, or connect from the console, which asks",
        )
        self.path = path


class LoginTimeout(LinkError):
    """The server is there, but signing in did not finish."""

    permanent = False

    def __init__(self, where: str, seconds: float, last_key: str) -> None:
        waiting = f" (last tried: {last_key})" if last_key else ""
        super().__init__(
            "login-timeout",
            f"signing in to {where} did not finish within {seconds:g} s{waiting}",
            "if the key waits for a touch or a confirmation, give it; else the server is stuck",
        )


class SshConfigFault(LinkError):
    """The user's SSH configuration cannot be read."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "ssh-config",
            f"your SSH configuration cannot be used: {clean(why, 300)}",
            "mend that line, or give the address as [user@]host[:port]",
        )


class ProxyFailed(LinkError):
    """A jump host or proxy command did not lead there."""

    permanent = False

    def __init__(self, where: str, through: str, why: str) -> None:
        super().__init__(
            "proxy-failed",
            f"{through} did not lead to {where} ({clean(why, 200)})",
            "try that hop by hand with ssh",
        )


class ChannelRefused(LinkError):
    """Signed in, but the server runs no command for us."""

    permanent = False

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "channel-refused",
            f"{where} let us in but refused to run a command ({clean(why, 160)})",
            "close another session there (MaxSessions), or ask whether this account may run commands",
        )


class TerminalOnly(LinkError):
    """A provider's proxy that offers a terminal and nothing else."""

    def __init__(self, where: str, details: Sequence[str]) -> None:
        super().__init__(
            "terminal-only",
            f"{where} is a proxy that offers only a terminal",
            "use the container's direct address instead: the provider lists it as SSH over exposed TCP (host and port)",
            details,
        )


class ShellEnded(LinkError):
    """The login shell ended before our program started."""

    def __init__(self, where: str, how: str, details: Sequence[str]) -> None:
        printed = f"; it printed: {' ⏎ '.join(details[-3:])}" if details else "; it printed nothing"
        super().__init__(
            "shell-ended",
            f"your login shell on {where} ended before the helper started ({how}){printed}",
            "see its start-up files there (.bashrc, .profile, ForceCommand, or a nologin shell)",
            details,
        )


class StartTimeout(LinkError):
    """The shell or Python over there said nothing for too long."""

    permanent = False

    def __init__(self, where: str, seconds: float, stage: str, details: Sequence[str]) -> None:
        printed = f"; it printed: {' ⏎ '.join(details[-3:])}" if details else ""
        super().__init__(
            "start-timeout",
            f"{where} let us in, but {stage} did not answer within {seconds:g} s{printed}",
            "a start-up file may be waiting for input, or the container is overloaded: try ssh there by hand",
            details,
        )


class NoPython(LinkError):
    """No Python 3.10 or newer on the container."""

    def __init__(self, where: str, tried: Sequence[tuple[str, str]], wanted: str | None) -> None:
        old = [f"{name} is {version}" for name, version in tried if version]
        missing = [name for name, version in tried if not version]
        if wanted and wanted in missing:
            old.insert(0, f"{wanted} does not start")
            missing.remove(wanted)
        found = f": {', '.join(old)}" if old else ""
        others = f"; not there: {', '.join(missing)}" if missing else ""
        super().__init__(
            "python-too-old" if old else "no-python",
            f"{where} has no Python 3.10 or newer{found}{others}",
            "install one there (apt-get install python3), or name it with --python PATH",
        )
        self.tried = tuple(tried)


class NoRoom(LinkError):
    """No place on the container takes the program, memory included."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            "no-room",
            f"{where} has no room for the helper (under 1 MB); tried {clean(detail, 600)}",
            "free some space there, or set XDG_CACHE_HOME to a folder that can be written",
        )


class DigestWrong(LinkError):
    """What arrived is not what was sent."""

    permanent = False

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            "digest-wrong",
            f"the helper arrived damaged on {where} ({clean(detail, 120)}) and was not run",
            "try again; if it happens twice, something on the way or on that disk changes data",
        )


class AgentDied(LinkError):
    """The program on the container ended by itself."""

    permanent = False

    def __init__(self, where: str, how: str, details: Sequence[str]) -> None:
        said = f"; its last words: {' ⏎ '.join(details[-2:])}" if details else ""
        super().__init__(
            "agent-died",
            f"the helper on {where} ended ({how}){said}",
            "the generator is not touched by this; reconnect",
            details,
        )


class VersionDiffers(LinkError):
    """The program that answers is not the one that was shipped."""

    def __init__(self, where: str, ours: str, theirs: str) -> None:
        super().__init__(
            "version-differs",
            f"the helper on {where} is release {clean(theirs, 40)}, this console ships {ours}",
            "update the older side",
        )


class LinkLost(LinkError):
    """A link that worked is gone, or silent for too long."""

    permanent = False
    network = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "link-lost",
            f"the connection to {where} was lost ({clean(why, 160)})",
            "nothing remote is affected; reconnect",
        )
