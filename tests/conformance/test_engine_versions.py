"""The test engines of newer versions as processes: their log can be read however long a run has been."""

from tests.support.engine_versions import VersionEngine
from verbworker.engine.protocol import Signal
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine

MESSAGES = 40
LARGE = "x" * 2**20


async def test_a_log_that_fills_much_of_the_memory_is_told_whole() -> None:
    with VersionEngine("8.9") as engine:
        async with ZeebeEngine(GatewayAddress(engine.address), engine_id="test") as gateway:
            for number in range(MESSAGES):
                signal = Signal("m", f"key-{number}", f"id-{number}", 3_600_000, {"orch_text": LARGE})
                await gateway.publish(signal)

        told = [record for record in engine.records() if record["intent"] == "PUBLISHED"]

    assert [record["value"]["correlationKey"] for record in told] == [f"key-{number}" for number in range(MESSAGES)]
    assert {record["value"]["variables"]["orch_text"] for record in told} == {LARGE}
