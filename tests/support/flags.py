"""Flags of a workflow verb, as a test writes them."""

from verblint.contracts.contract import Flag
from verbworker.contract.flags import FlagContract


def flag_contract(*flags: Flag) -> FlagContract:
    """The contract that declares these flags."""
    return FlagContract({flag.name: flag for flag in flags})
