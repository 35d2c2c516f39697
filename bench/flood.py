"""What one tenant's flood costs another: the latency of small messages at the ingress, quiet and under the flood.

python -m bench.flood [--rounds N] [--requests N] [--senders N]

The ingress runs as an operator runs it: a process of its own, on Postgres, with the rates that it has by default. One
tenant sends small messages, thirty a second; meanwhile four senders of another tenant, in a process of their own, send
bodies of 1 MiB full of floats, one after the other. Three phases take turns, so only their ratios count: quiet, the
flood at another ingress process on the same machine (what the machine alone costs), and the flood at the same one.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

from tests.support.apart import run_apart
from tests.support.ingress_process import API_KEY, ENGINE_ID, OTHER_KEY, envelope, ingress_process, write_app
from tests.support.mail import deploy_model
from tests.support.ports import LOOPBACK
from tests.support.postgres import Postgres
from verbworker.stores.migrations import migrate

_PAUSE = 1 / 30  # between small messages: below the rate of a sender
_MIB = 1024 * 1024
_FLOATS = 49_000  # below the most values of a message, so that each is read as a whole
_PATIENCE = 0.05  # seconds a sender of the flood waits for after an answer: less, and it measures its own work


def flood_body() -> bytes:
    """Return a message of 1 MiB of floats; its filling takes what the floats leave."""
    dice = Random(1)
    floats = [dice.random() for _ in range(_FLOATS)]
    body = json.dumps(envelope(message_id="m-FLOOD-NUMBER", payload={"a": floats}), separators=(",", ":")).encode()
    assert len(body) < _MIB - 64
    return body + b" " * (_MIB - 64 - len(body))


def post(connection: http.client.HTTPConnection, body: bytes, key: str) -> int:
    """Send one message and return the status of its answer."""
    connection.request("POST", "/messages", body, {"Content-Type": "application/json", "X-Api-Key": key})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def flood(port: int, senders: int) -> None:
    """Send large messages until killed, and print each answer's status."""
    body = flood_body()

    def send(sender: int) -> None:
        for number in range(1_000_000):
            connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
            try:
                status = post(connection, body.replace(b"FLOOD-NUMBER", f"{sender}-{number:09}".encode()), API_KEY)
            except OSError:
                status = 0
            finally:
                connection.close()
            sys.stdout.write(f"{status}\n")
            sys.stdout.flush()
            time.sleep(_PATIENCE)

    for sender in range(senders):
        threading.Thread(target=send, args=(sender,)).start()


def small_messages(port: int, number: int, start: int) -> list[float]:
    """Send small messages of the other tenant in turn; return how many milliseconds each took."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    took = []
    for place in range(start, start + number):
        names: dict[str, object] = {"message_id": f"m-{place}", "correlation_key": f"c-{place}"}
        body = json.dumps(envelope(tenant_id="globex", **names)).encode()
        begun = time.perf_counter()
        status = post(connection, body, OTHER_KEY)
        took.append(1000 * (time.perf_counter() - begun))
        assert status == 202, f"a small message got {status}"
        time.sleep(_PAUSE)
    connection.close()
    return took


@contextmanager
def flooding(port: int, senders: int) -> Iterator[Counter[str]]:
    """Keep a flood up; afterwards the counter has its answers by status."""
    command = [sys.executable, "-m", "bench.flood", "--flood", str(port), "--senders", str(senders)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    answers: Counter[str] = Counter()
    assert process.stdout is not None
    answers[process.stdout.readline().strip()] += 1  # the flood has begun
    reader = threading.Thread(target=lambda: answers.update(line.strip() for line in process.stdout or ()))
    reader.start()
    try:
        yield answers
    finally:
        process.kill()
        process.wait()
        reader.join()


def measure(rounds: int, requests: int, senders: int) -> None:
    """Print the latency of each phase, and the medians of the ratios."""
    with Postgres() as server, tempfile.TemporaryDirectory(prefix="bench-flood-") as name:
        run_apart(migrate(server.dsn))
        run_apart(deploy_model(server.dsn, ENGINE_ID))
        write_app(Path(name))
        engine = {"VERBWORKER_ENGINE": "embedded"}
        folder, dsn = Path(name), server.dsn
        with ingress_process(folder, dsn, **engine) as ingress, ingress_process(folder, dsn, **engine) as other:
            number = count(0, requests)
            small_messages(ingress.port, requests, next(number))
            found: dict[str, list[float]] = {}
            answered: Counter[str] = Counter()
            for _ in range(rounds):
                took = {"quiet": small_messages(ingress.port, requests, next(number))}
                with flooding(other.port, senders):
                    took["beside"] = small_messages(ingress.port, requests, next(number))
                with flooding(ingress.port, senders) as answers:
                    took["flood"] = small_messages(ingress.port, requests, next(number))
                answered += answers
                _note(took, found)
            print(f"answers to the flood: {dict(answered)}")
            for words, ratios in found.items():
                print(f"{words}: {statistics.median(ratios):.2f} x, of {min(ratios):.2f} to {max(ratios):.2f}")


def _note(took: dict[str, list[float]], found: dict[str, list[float]]) -> None:
    """Print the phases of one round, and add its ratios."""
    line = []
    for part in (50, 99):
        quiet, beside, flooded = (statistics.quantiles(took[name], n=100)[part - 1] for name in took)
        line.append(f"p{part} quiet {quiet:.1f}, beside the flood {beside:.1f}, under it {flooded:.1f} ms")
        found.setdefault(f"p{part} under the flood / quiet", []).append(flooded / quiet)
        found.setdefault(f"p{part} under the flood / beside it", []).append(flooded / beside)
    print("; ".join(line), flush=True)


def main() -> None:
    """Measure, or be the flood."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of three phases")
    parser.add_argument("--requests", type=int, default=300, help="small messages per phase")
    parser.add_argument("--senders", type=int, default=4, help="connections of the flood")
    parser.add_argument("--flood", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        flood(options.flood, options.senders)
    else:
        measure(options.rounds, options.requests, options.senders)


if __name__ == "__main__":
    main()
