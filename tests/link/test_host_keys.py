"""Unknown and changed keys are two things with two remedies, and nothing switches checking off."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from console import link
from console.connecting import Connector
from console.link_errors import HostCertificateInvalid, HostKeyChanged, HostKeyRevoked, HostKeyUnknown
from console.ship import Package
from console.target import Target
from remote.errors import OperatorError
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.sshd import Server, keygen, sshd, tool


async def unknown(target: Target, shipped: Package) -> HostKeyUnknown:
    """The question that a target asks which nobody knows."""
    with pytest.raises(HostKeyUnknown) as told:
        await link.connect(target, shipped=shipped)
    return told.value


async def test_an_unknown_key_is_asked_about_and_then_pinned_for_this_target_alone(
    server: Server, shipped: Package, connected: Connect
) -> None:
    asked = await unknown(server.unknown(), shipped)
    shown = tool("ssh-keygen", "-lf", f"{server.host_key}.pub")
    assert asked.fingerprint.split()[1] in shown, "the fingerprint that ssh-keygen shows"
    assert "SHA256:" in str(asked) and asked.permanent
    link.accept_key(asked)
    assert Path(asked.pin_file).stat().st_mode & 0o777 == 0o600
    async with connected(server.unknown()):
        pass
    await unknown(replace(server.unknown(), name="another profile"), shipped)


async def test_a_yes_to_one_key_pins_no_other(server: Server, folder: Path) -> None:
    """Another try (a laptop that woke elsewhere) may have met another key while the first was on the screen."""
    connector = Connector(server.unknown())
    with pytest.raises(HostKeyUnknown) as shown:
        await connector()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    with sshd(elsewhere) as other, pytest.raises(HostKeyUnknown) as met:
        connector._target = replace(other.unknown(), name=server.unknown().name)
        await connector()
    pins = Path(met.value.pin_file)
    before = pins.read_text() if pins.exists() else ""
    with pytest.raises(OperatorError) as told:
        connector.accept_key(shown.value.message)
    assert told.value.code == "key-differs" and met.value.fingerprint in str(told.value)
    assert (pins.read_text() if pins.exists() else "") == before
    connector.accept_key(met.value.message)
    assert met.value.key_line in pins.read_text()


async def test_a_changed_key_is_refused_and_the_printed_command_mends_it(
    server: Server, shipped: Package, folder: Path, tmp_path: Path
) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    known = tmp_path / "with a space"
    known.write_text(f"[127.0.0.1]:{server.port} {' '.join(other)}\nsomebody.else {' '.join(other)}\n")
    tool("ssh-keygen", "-q", "-H", "-f", str(known))
    with pytest.raises(HostKeyChanged) as told:
        await link.connect(replace(server.target(), known_hosts=str(known)), shipped=shipped)
    error = told.value
    assert error.permanent and error.new not in error.old
    assert error.new in str(error) and error.old[0] in str(error) and error.remove[0] in str(error)
    tool(*shlex.split(error.remove[0]))
    await unknown(replace(server.target(), known_hosts=str(known)), shipped)


async def test_a_key_that_changed_its_type_is_changed_not_unknown(
    server: Server, shipped: Package, tmp_path: Path
) -> None:
    other = keygen(tmp_path / "other", "rsa").with_suffix(".pub").read_text().split()[:2]
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {' '.join(other)}\n")
    with pytest.raises(HostKeyChanged):
        await link.connect(replace(server.target(), known_hosts=str(known)), shipped=shipped)


async def test_another_port_of_a_rented_address_is_unknown_not_changed(
    server: Server, shipped: Package, tmp_path: Path
) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    known = tmp_path / "known"
    known.write_text(f"127.0.0.1 {' '.join(other)}\n[127.0.0.1]:1 {' '.join(other)}\n")
    await unknown(replace(server.target(), known_hosts=str(known)), shipped)


async def test_a_revoked_key_is_refused(server: Server, shipped: Package, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"@revoked * {' '.join(server.host_key.with_suffix('.pub').read_text().split()[:2])}\n")
    with pytest.raises(HostKeyRevoked):
        await link.connect(replace(server.target(), known_hosts=str(known)), shipped=shipped)


@pytest.mark.parametrize("checking", ["no", "accept-new", "off"])
@pytest.mark.parametrize("file", ["none", "/dev/null"])
async def test_no_configuration_switches_checking_off(
    checking: str, file: str, server: Server, shipped: Package
) -> None:
    options = (f"UserKnownHostsFile={file}", "GlobalKnownHostsFile=none", f"StrictHostKeyChecking={checking}")
    await unknown(replace(server.target(), known_hosts=None, ssh_options=options), shipped)


async def test_garbage_in_known_hosts_is_passed_over(server: Server, connected: Connect, tmp_path: Path) -> None:
    known = tmp_path / "known"
    good = server.known_hosts.read_bytes()
    known.write_bytes(
        b"one-word\n\xff\xfe\n# c\n@what x ssh-rsa AAAA\nhost ssh-ed25519 %%%\n|1|x|y ssh-rsa AAAA\n\n" + good
    )
    async with connected(replace(server.target(), known_hosts=str(known))):
        pass


async def test_a_host_certificate_is_trusted_through_its_authority(
    folder: Path, tmp_path: Path, connected: Connect, shipped: Package
) -> None:
    needs("sshd", "ssh")
    authority = keygen(tmp_path / "authority")
    with sshd(folder) as plain:
        tool("ssh-keygen", "-q", "-s", str(authority), "-I", "host", "-h", "-n", "127.0.0.1", f"{plain.host_key}.pub")
        with sshd(folder, [f"HostKey {plain.host_key}", f"HostCertificate {plain.host_key}-cert.pub"]) as certified:
            known = tmp_path / "known"
            known.write_text(f"@cert-authority *,[127.0.0.1]:* {authority.with_suffix('.pub').read_text()}")
            async with connected(replace(certified.target(), known_hosts=str(known))):
                pass
            known.write_text("")
            await unknown(replace(certified.target(), known_hosts=str(known)), shipped)


async def test_host_key_alias_names_the_entry(server: Server, connected: Connect, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(server.known_hosts.read_text().replace(f"[127.0.0.1]:{server.port}", "the-alias"))
    target = replace(server.target(), known_hosts=str(known), ssh_options=("HostKeyAlias=the-alias",))
    async with connected(target):
        pass


async def test_a_certificate_of_another_authority_leaves_the_plain_key_to_count(
    folder: Path, tmp_path: Path, connected: Connect, shipped: Package
) -> None:
    needs("sshd", "ssh")
    theirs, ours = keygen(tmp_path / "theirs"), keygen(tmp_path / "ours")
    with sshd(folder) as plain:
        tool("ssh-keygen", "-q", "-s", str(theirs), "-I", "host", "-h", "-n", "127.0.0.1", f"{plain.host_key}.pub")
        with sshd(folder, [f"HostKey {plain.host_key}", f"HostCertificate {plain.host_key}-cert.pub"]) as certified:
            known = tmp_path / "known"
            known.write_text(f"@cert-authority * {ours.with_suffix('.pub').read_text()}")
            await unknown(replace(certified.target(), known_hosts=str(known)), shipped)
            key = plain.host_key.with_suffix(".pub").read_text()
            with known.open("a") as more:
                more.write(f"[127.0.0.1]:{certified.port} {key}")
            async with connected(replace(certified.target(), known_hosts=str(known))):
                pass


async def test_a_certificate_that_has_run_out_is_named(folder: Path, tmp_path: Path, shipped: Package) -> None:
    needs("sshd", "ssh")
    ours = keygen(tmp_path / "ours")
    with sshd(folder) as plain:
        words = ["-I", "host", "-h", "-n", "127.0.0.1", "-V", "20200101:20200102", f"{plain.host_key}.pub"]
        tool("ssh-keygen", "-q", "-s", str(ours), *words)
        with sshd(folder, [f"HostKey {plain.host_key}", f"HostCertificate {plain.host_key}-cert.pub"]) as certified:
            known = tmp_path / "known"
            known.write_text(f"@cert-authority *,[127.0.0.1]:* {ours.with_suffix('.pub').read_text()}")
            with pytest.raises(HostCertificateInvalid):
                await link.connect(replace(certified.target(), known_hosts=str(known)), shipped=shipped)
