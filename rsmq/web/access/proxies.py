"""
Trusted proxies: networks whose requests say who sends them, and from which address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from rsmq.errors import InvalidFormat, show

#: The header to which each proxy adds the address that it has got a request from.
FORWARDED = "x-forwarded-for"


class TrustedProxies:
    """Networks of proxies, such as ``10.0.0.0/8``."""

    def __init__(self, networks: Iterable[str]) -> None:
        """
        Make them.

        Raises:
            InvalidFormat: one is not a network.
        """
        self._networks = tuple(map(_parse_network, networks))

    def __contains__(self, address: str) -> bool:
        if not self._networks:  # as nearly always; parsing takes longer than the rest of the gate
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in each for each in self._networks)

    def client_of(self, peer: str, headers: Mapping[str, str]) -> str:
        """
        Return the address of the client: the last one that no trusted proxy has.

        Addresses before it in the header may be invented.
        """
        client = peer
        for text in reversed(headers.get(FORWARDED, "").split(",")):
            if client not in self:
                break
            address = _parse_address(text.strip())
            if address is None:
                break
            client = address
        return client


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InvalidFormat(
            "trusted_proxies", value=show(text), hint="A network is as in 10.0.0.0/8."
        ) from None


def _parse_address(text: str) -> str | None:
    """Return an address without its port, or None."""
    for each in (text, text.rpartition(":")[0], text.removeprefix("[").partition("]")[0]):
        try:
            return str(ipaddress.ip_address(each))
        except ValueError:
            continue
    return None
