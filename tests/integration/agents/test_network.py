"""The guard of every client that fetches what somebody named: against real sockets on loopback."""

import gzip
import os
import socket
import ssl
import zlib
from typing import Any
from unittest import mock

import httpx2
import pytest

from agents.errors import ApplicationError
from agents.network import Reach, ask_once, guarded_client, host_of, is_public
from tests.servers.web_site import Answer, certificate, web_site


class RefusedError(ApplicationError):
    code = "refused"


def reach(**overrides: Any) -> Reach:
    return Reach(**{"max_bytes": 10_000, "error": RefusedError, **overrides})


def got(url: str, **limits: Any) -> httpx2.Response:
    return ask_once(guarded_client(reach(**limits), timeout=2), "GET", url)


INTERNAL = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",  # noqa: S104
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378::1", "2001:db8::1", "100::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INTERNAL)
def test_address_that_is_not_of_the_open_network_is_internal(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "193.252.148.1", "2606:4700::1111", "2a01:e0a::1"])
def test_address_of_the_open_network_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "LOCALHOST."],
)  # fmt: skip
def test_internal_host_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(RefusedError):
        got(f"http://{host}/")


def test_one_internal_address_among_public_ones_refuses_the_host() -> None:
    found = [(0, 0, 0, "", (address, 80)) for address in ("93.184.216.34", "10.0.0.7")]
    with (
        mock.patch.object(socket, "getaddrinfo", return_value=found),
        pytest.raises(RefusedError, match="adresse interne"),
    ):
        got("http://both.example/")


@pytest.mark.parametrize("url", ["ftp://a.example/", "file:///etc/passwd", "http://u:p@a.example/", "http:///x", "a"])
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(RefusedError):
        host_of(url, RefusedError)


def test_other_hosts_and_ports_are_refused() -> None:
    for url in ("http://other.example/", "http://api.example:8080/"):
        with pytest.raises(RefusedError, match="pas permis"):
            got(url, hosts=["api.example"], ports=(80, 443))
    with pytest.raises(RefusedError, match="port 25 "):
        got("http://api.example:25/", ports=(80, 443))


def test_connection_goes_to_the_address_that_was_checked_and_to_no_later_one() -> None:
    with web_site({"/": Answer("ok")}) as site:
        port = site.host.rsplit(":", 1)[1]
        name = f"rebind.example:{port}"
        real = socket.getaddrinfo
        asked: list[str] = []

        def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
            host = host.decode() if isinstance(host, bytes) else host
            if host == "rebind.example":
                asked.append(host)
                first = len(asked) == 1
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if first else "127.0.0.9", 0))]  # fmt: skip
            return real(host, *args, **kwargs)

        with mock.patch.object(socket, "getaddrinfo", side_effect=lookup):
            assert got(f"http://{name}/", internal=[name]).text == "ok"
        assert asked == ["rebind.example"]
        assert site.asked[0][1]["host"] == name


def test_proxy_and_credentials_of_the_environment_are_ignored() -> None:
    with web_site({"/": Answer("ok")}) as site:
        with mock.patch.dict(os.environ, {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}):
            assert got(site.url(), internal=[site.host]).text == "ok"


def test_answer_is_bounded_before_and_after_unpacking() -> None:
    bomb, fine = gzip.compress(b"0" * 5_000_000), b"a" * 9_000
    cut = gzip.compress(os.urandom(4_000))[:-300]
    refused = {
        "/long": Answer(b"x" * 10_001),
        "/bomb": Answer(bomb, headers={"Content-Encoding": "gzip"}),
        "/deflated": Answer(zlib.compress(b"0" * 5_000_000), headers={"Content-Encoding": "deflate"}),
        "/after": Answer(gzip.compress(fine) + b"x" * 10_001, headers={"Content-Encoding": "gzip"}),
        "/cut": Answer(cut, headers={"Content-Encoding": "gzip"}),
        "/wrong": Answer(fine, headers={"Content-Encoding": "gzip"}),
        "/twice": Answer(gzip.compress(bomb), headers={"Content-Encoding": "gzip, gzip"}),
        "/other": Answer(b"x", headers={"Content-Encoding": "br"}),
    }
    read = {
        "/plain": Answer(fine),
        "/gzip": Answer(gzip.compress(fine), headers={"Content-Encoding": "gzip"}),
        "/members": Answer(gzip.compress(fine[:50]) + gzip.compress(fine[50:]), headers={"Content-Encoding": "gzip"}),
    }
    assert len(bomb) < 10_000
    with web_site({**refused, **read}) as site:
        for path in refused:
            with pytest.raises(RefusedError):
                got(site.url(path), internal=[site.host])
        for path in read:
            assert got(site.url(path), internal=[site.host]).content == fine
        assert site.asked[-1][1]["accept-encoding"] == "gzip"


def test_tls_is_verified_with_the_name_although_the_connection_goes_to_an_address() -> None:
    with certificate("desk.example") as (context, authority), web_site({"/": Answer("ok")}, tls=context) as site:  # fmt: skip
        port = int(site.host.rsplit(":", 1)[1])
        real = socket.getaddrinfo

        def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
            named = host.decode() if isinstance(host, bytes) else host
            return real("127.0.0.1" if str(named).endswith(".example") else host, *args, **kwargs)

        trusted = ssl.create_default_context(cafile=str(authority))

        def get(name: str, verify: ssl.SSLContext | bool) -> str:
            client = guarded_client(reach(internal=[f"{name}:{port}"]), timeout=2, verify=verify)
            return ask_once(client, "GET", f"https://{name}:{port}/").text

        with mock.patch.object(socket, "getaddrinfo", side_effect=lookup):
            assert get("desk.example", trusted) == "ok"
            for name, verify in (("other.example", trusted), ("desk.example", True)):
                with pytest.raises(httpx2.ConnectError):
                    get(name, verify)
