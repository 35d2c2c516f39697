"""Which process instances are alive in the brokers, as an exporter of ours writes it down."""

import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.errors import Broken, Unavailable
from tests.support.java import find_java
from tests.support.zeebe_home import zeebe_home

_SOURCE = Path(__file__).with_name("java") / "LedgerExporter.java"
_ENDS = frozenset({"ELEMENT_COMPLETED", "ELEMENT_TERMINATED"})


def build_exporter(folder: Path) -> Path:
    """Compile the exporter into a jar in `folder`."""
    java = find_java()
    if java.compiler is None:
        raise Unavailable(f"{java.home} has no javac, and the exporter that tells which instances live needs it")
    libraries = ":".join(str(jar) for jar in sorted((zeebe_home() / "lib").glob("zeebe-*.jar")))
    done = subprocess.run(
        [java.compiler, "--release", "21", "-proc:none", "-cp", libraries, "-d", folder, _SOURCE],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise Broken(f"the exporter does not compile: {done.stderr}")
    jar = folder / "ledger.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for compiled in folder.glob("LedgerExporter*.class"):
            archive.write(compiled, compiled.name)
    return jar


def exporter_settings(jar: Path, file: Path) -> dict[str, str]:
    """The variables that have a broker load the exporter."""
    return {
        "ZEEBE_BROKER_EXPORTERS_LEDGER_CLASSNAME": "LedgerExporter",
        "ZEEBE_BROKER_EXPORTERS_LEDGER_JARPATH": str(jar),
        "ZEEBE_BROKER_EXPORTERS_LEDGER_ARGS_FILE": str(file),
    }


def read_instances(files: Iterable[Path]) -> dict[int, tuple[str, bool]]:
    """Every instance the brokers ever had: its process, and whether it is alive."""
    found: dict[int, tuple[str, bool]] = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else ():
            intent, key, process = line.split()
            is_alive = found.get(int(key), (process, True))[1] and intent not in _ENDS
            found[int(key)] = (process, is_alive)
    return found
