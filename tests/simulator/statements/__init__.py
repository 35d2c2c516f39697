"""What each named query of `sql/queries` does, in memory. Importing this registers them all."""

from tests.simulator.statements import frames as frames
from tests.simulator.statements import gates as gates
from tests.simulator.statements import inbox as inbox
from tests.simulator.statements import instances as instances
from tests.simulator.statements import pops as pops
from tests.simulator.statements import runbook as runbook
from tests.simulator.statements import stalls as stalls
from tests.simulator.statements import steps as steps
from tests.simulator.statements import sweep as sweep
