"""What the worker's code does to its stores, each at random. Importing this registers them all."""

from tests.simulator.operations import runbook as runbook
from tests.simulator.operations import sweep as sweep
from tests.simulator.operations import work as work
