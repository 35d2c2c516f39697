"""A small parcel service: the application that the fault runs are about."""

from pathlib import Path

from tests.faults.app.verbs import verbs
from verbworker import Registry

HERE = Path(__file__).parent

registry = Registry.of(verbs).load(HERE, policies=HERE / "policies.yaml").check()
