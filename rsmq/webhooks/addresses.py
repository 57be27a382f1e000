"""
The addresses that a push may connect to: public ones, and those of the ranges that the user allows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rsmq.errors import InvalidFormat, show
from rsmq.errors.hints import Hint, Passed

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressRange: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Ranges that are not public, with their purposes.
_REFUSED_RANGES: tuple[tuple[AddressRange, str], ...] = tuple(
    (ipaddress.ip_network(text), purpose)
    for text, purpose in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "metadata of a cloud"),
        ("169.254.0.0/16", "link-local, or metadata of a cloud"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
    )
)
#: All other public IPv6 addresses are in this range.
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
#: The last 32 bits of an address in this range are an IPv4 address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """A push may not connect to this address."""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """
    The rules for addresses.

    Attributes:
        allowed: ranges that are allowed though they are not public.
    """

    allowed: tuple[AddressRange, ...] = ()

    def check(self, text: str) -> None:
        """
        Check an address.

        Args:
            text: the address, as the system's resolver returns it.

        Raises:
            AddressRefused: it is not public, and not in an allowed range.
        """
        address = parse_address(text)
        # The address that a connection reaches, and the one that carries it.
        reached = _embedded_ipv4(address) or address
        if any(each in network for network in self.allowed for each in (address, reached)):
            return
        purpose = _purpose_of(reached)
        if purpose is not None:
            shown = f"{address}" if reached == address else f"{address}, which is {reached},"
            raise AddressRefused(
                Hint(
                    f"address {shown} is not public ({purpose}): allow its range, as in ",
                    Passed("allow", str(ipaddress.ip_network(reached))),
                    ", if messages may be pushed there",
                )
            )


#: The rules that allow every address: those of the process that connects decide later.
ANY_ADDRESS = AddressRules((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))


def parse_address(text: str) -> Address:
    """
    Return an address without its zone.

    Raises:
        AddressRefused: it is not an address.
    """
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise AddressRefused(f"{text!r} is not an address") from None


def parse_ranges(allow: str | Iterable[str]) -> tuple[AddressRange, ...]:
    """
    Return the ranges that the user allows.

    Args:
        allow: one range or several, as in ``10.0.0.0/8``; an address is a range of its own.

    Raises:
        InvalidFormat: one of them is not a range.
    """
    ranges: list[AddressRange] = []
    for text in [allow] if isinstance(allow, str) else allow:
        try:
            if not isinstance(text, str):
                raise ValueError  # noqa: TRY004, TRY301 - the same error as for a wrong text
            ranges.append(ipaddress.ip_network(text))
        except ValueError:
            raise InvalidFormat(
                "allow",
                value=show(text),
                hint="It is a range of addresses, as in 10.0.0.0/8 or fd00::/8, without bits "
                "behind the prefix.",
            ) from None
    return tuple(ranges)


def _embedded_ipv4(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _purpose_of(address: Address) -> str | None:
    """Return the purpose of an address that is not public; None if it is public."""
    for network, purpose in _REFUSED_RANGES:
        if address in network:
            return purpose
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_IPV6:
        return "reserved"
    return None
