"""Certificates made on the spot by openssl, each its own authority."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate for this machine, and its key."""

    chain: Path
    key: Path


def self_signed(folder: Path, name: str) -> Certificate:
    """Make a certificate that is good for 127.0.0.1 and localhost until tomorrow."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    output = ["-keyout", str(made.key), "-out", str(made.chain), "-days", "1", "-nodes"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, *output, *subject]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made
