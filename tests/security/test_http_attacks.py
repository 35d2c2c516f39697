"""Requests that no client sends by mistake: each is refused in HTTP, nothing is done, and the server goes on."""

import socket

import pytest

from tests.support.ingress_process import API_KEY, IngressProcess
from tests.support.ports import LOOPBACK
from tests.support.site import KEYS, Site

pytestmark = pytest.mark.attack("HTTP")

_KEY = f"X-Api-Key: {API_KEY}\r\nContent-Type: application/json\r\n"
_BODY = '{"a":1}'


def talk(port: int, request: bytes) -> bytes:
    """Send bytes as they are, and return what is answered until the server closes or falls silent."""
    with socket.create_connection((LOOPBACK, port), timeout=20) as connection:
        connection.sendall(request)
        connection.settimeout(5)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
    return answer


def post(head: str, body: str = _BODY, path: str = "/messages") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n{body}".encode("latin-1")


RAW: dict[str, bytes] = {
    "no request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no version": b"GET /v1/entries\r\n\r\n",
    "a version to come": b"GET /v1/entries HTTP/9.9\r\nHost: x\r\nConnection: close\r\n\r\n",
    "a null in the path": b"GET /v1/ent\x00ries HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "a null in a header": post(_KEY + "X-A: a\x00b\r\nContent-Length: 7\r\n"),
    "a line without a colon": post(_KEY + "nonsense\r\nContent-Length: 7\r\n"),
    "a space before the colon": post(_KEY + "Content-Length : 7\r\n"),
    "a folded line": post(_KEY + "X-A: a\r\n b\r\nContent-Length : 7\r\n"),
    "a bare line feed": post(_KEY + "X-A: a\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n"),
    "a bare carriage return": post(_KEY + "X-A: a\rTransfer-Encoding: chunked\r\nContent-Length : 7\r\n"),
    "a negative length": post(_KEY + "Content-Length: -1\r\n"),
    "a length in hexadecimal": post(_KEY + "Content-Length: 0x7\r\n"),
    "a length with a plus": post(_KEY + "Content-Length: +7\r\n"),
    "a length of another script": post(_KEY + "Content-Length: \xb2\r\n"),
    "a list of lengths": post(_KEY + "Content-Length: 7, 8\r\n"),
    "two lengths": post(_KEY + "Content-Length: 7\r\nContent-Length: 8\r\n"),
    "a huge length": post(_KEY + "Content-Length: 99999999999999999999\r\n"),
    "a length beyond the limit": post(_KEY + "Content-Length: 1048577\r\n"),
    "length and chunks": post(_KEY + "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    "chunks twice": post(_KEY + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    "chunks, nearly": post(_KEY + "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
    "identity": post(_KEY + "Transfer-Encoding: identity\r\n"),
    "a chunk without a size": post(_KEY + "Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"),
    "a chunk of negative size": post(_KEY + "Transfer-Encoding: chunked\r\n", "-1\r\n{}\r\n0\r\n\r\n"),
    "a chunk of huge size": post(_KEY + "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "headers without end": post("".join(f"X-{number}: {'a' * 1000}\r\n" for number in range(200))),
    "a header without end": b"GET /v1/entries HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n",
    "a path without end": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a body in gzip": post(_KEY + "Content-Encoding: gzip\r\nContent-Length: 7\r\n"),
    "an upgrade": post(_KEY + "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 7\r\n"),
    "a web socket": b"GET /v1/entries HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "the method TRACE": b"TRACE /v1/entries HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: secret\r\n\r\n",
    "the method CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    "a method of one's own": b"PURGE /v1/entries HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "a proxy's address": b"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "HTTP/2 at once": b"PRI * HTTP/2.0\r\n\r\n",
}
"""Sent as they are. No answer but a closed connection is an answer too."""


@pytest.mark.parametrize("request_", RAW.values(), ids=RAW)
def test_the_api_refuses_it_and_goes_on(ingress: IngressProcess, request_: bytes) -> None:
    answer = talk(ingress.port, request_)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 501 "), answer[:200]
    assert answer.count(b"HTTP/1.1 ") <= 1  # no second answer to what was smuggled
    assert b"Traceback" not in answer
    assert b"secret" not in answer
    assert ingress.ask("GET", "/live").status == 200


PATHS = {
    "up": "/static/../routes.py",
    "up, escaped": "/static/%2e%2e/routes.py",
    "up, escaped twice": "/static/%252e%252e/routes.py",
    "up, with a backslash": "/static/..%5croutes.py",
    "up, far": "/static/" + "../" * 20 + "etc/passwd",
    "up, far and escaped": "/static/" + "%2e%2e%2f" * 20 + "etc/passwd",
    "an absolute path": "/static//etc/passwd",
    "a null": "/static/console.css%00.py",
    "overlong slashes": "/static/..%c0%af..%c0%afroutes.py",
    "a drive": "/static/C:%5cwindows",
    "another template": "/static/../pages/entry.html",
    "half a letter": "/entries/%ff%fe",
    "an id and more": "/entries/00000000-0000-0000-0000-000000000000%0d%0aSet-Cookie:x=1",
    "a script": "/entries/%3Cscript%3Ealert(1)%3C/script%3E",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_no_path_of_the_console_leads_out_of_it(console: Site, path: str) -> None:
    visitor = console.visitor("ann")
    answer = visitor.get(path)

    assert answer.status in (400, 404, 405), answer.text[:200]
    assert "set-cookie" not in answer.headers
    assert "<script>alert" not in answer.text
    assert "root:" not in answer.text
    assert "def " not in answer.text


LOGIN = {"Content-Type": "application/x-www-form-urlencoded"}
FORMS: dict[str, tuple[bytes, dict[str, str]]] = {
    "of another site": (b"key=x", {**LOGIN, "Origin": "https://evil.example"}),
    "of no origin": (b"key=x", {**LOGIN, "Origin": "null"}),
    "of another port": (b"key=x", {**LOGIN, "Origin": f"http://{LOOPBACK}:1"}),
    "of a longer name": (b"key=x", {**LOGIN, "Origin": f"http://{LOOPBACK}.evil.example"}),
    "fetched across sites": (b"key=x", {**LOGIN, "Sec-Fetch-Site": "cross-site"}),
    "of another referer": (b"key=x", {**LOGIN, "Referer": "https://evil.example/"}),
    "as plain text": (b"key=x", {"Content-Type": "text/plain"}),
    "in parts": (b"--x\r\n\r\n--x--", {"Content-Type": "multipart/form-data; boundary=x"}),
    "as JSON": (b'{"key":"x"}', {"Content-Type": "application/json"}),
    "with many fields": (b"&".join(b"a=%d" % number for number in range(5_000)), LOGIN),
    "of bytes": (b"key=\xff\xfe", LOGIN),
    "too large": (b"key=" + b"a" * 70_000, LOGIN),
    "to another host": (b"key=x", {**LOGIN, "Host": "evil.example"}),
}


@pytest.mark.parametrize(("body", "headers"), FORMS.values(), ids=FORMS)
def test_a_form_that_no_page_of_ours_sends_is_refused(console: Site, body: bytes, headers: dict[str, str]) -> None:
    right = body.replace(b"key=x", f"key={KEYS['ann']}".encode())
    answer = console.ask("POST", "/login", right, headers)

    assert answer.status in (400, 403, 413, 415, 421), answer.text[:200]
    assert answer.cookies == ()
