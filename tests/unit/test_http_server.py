"""The HTTP server: what cannot be used is one sentence."""

import socket
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from verbworker.errors import CannotRun
from verbworker.http.server import ServerOptions, bind, open_server


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "server.pem"
    if content is not None:
        file.write_text(content)
    options = ServerOptions(1, timedelta(seconds=1), tls_certificate=file, tls_key=file)

    with closing(bind("127.0.0.1", 0, advice="")) as listener, pytest.raises(CannotRun, match=r"server\.pem"):
        async with open_server(None, listener, options):
            pass


def test_an_address_that_cannot_be_used_is_one_sentence_with_advice() -> None:
    with pytest.raises(CannotRun, match=r"^cannot listen on 192\.0\.2\.1 port 0: .*; choose another$"):
        bind("192.0.2.1", 0, advice="choose another")


def test_no_answer_waits_for_the_client_to_acknowledge_its_head() -> None:
    with (
        closing(bind("127.0.0.1", 0, advice="")) as listener,
        closing(socket.create_connection(listener.getsockname())),
        closing(listener.accept()[0]) as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
