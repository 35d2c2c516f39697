"""The example application: its verbs, their contracts, and nothing of BPMN.

`verbworker worker --app verbs:registry` works for everything in here.
"""

from pathlib import Path

from verbs import document, kyc
from verbworker import Registry

_HERE = Path(__file__).parent

registry = Registry.of(document.verbs, kyc.verbs).load(_HERE, policies=_HERE / "policies.yaml").check()
