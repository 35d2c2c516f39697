"""Small requests to a server on loopback, past any proxy the environment names."""

import http.client
import json
from typing import Any


def ask(method: str, address: str, path: str, body: object = None, timeout: float = 10.0) -> tuple[int, Any]:
    """Send one request and return the status and the answer, read as JSON where it is."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read().decode()
    finally:
        connection.close()
    try:
        return response.status, json.loads(answer)
    except ValueError:
        return response.status, answer
