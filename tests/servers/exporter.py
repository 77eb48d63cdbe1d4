"""The JMX Prometheus agent for test brokers: a pinned, cached jar from Maven."""

import hashlib
import http.client
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS

ARTIFACT = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
SHA256 = "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
SHIPPED = Path(__file__).parents[2] / "examples" / "telemetry" / "jmx_exporter.yml"
"""The configuration in the distribution."""

LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)\Z", re.DOTALL)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)",?', re.DOTALL)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Series = tuple[str, frozenset[tuple[str, str]]]


def agent() -> Path:
    """Return the agent's jar, downloaded on first use.

    Raises:
        ServersUnavailable: Maven is missing or cannot download it, or the jar is not the pinned one.
    """
    name = f"jmx-agent-{ARTIFACT.rpartition(':')[2]}-{jars.digest(ARTIFACT, SHA256)}"
    return next(jars.cached(name, _download).glob("*.jar"))


def flag(port: int, configuration: Path) -> str:
    """Return the JVM flag that serves metrics on a loopback port."""
    return f"-javaagent:{agent()}=127.0.0.1:{port}:{configuration}"


def scrape(port: int) -> dict[Series, float]:
    """Return the current metrics: (name, labels) -> value, label values unescaped as in Prometheus.

    Raises:
        OSError: The port refuses the connection or does not respond.
        AssertionError: The status is not 200, or a line cannot be parsed.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
    finally:
        connection.close()
    return parsed(body)


def parsed(text: str) -> dict[Series, float]:
    """Parse Prometheus' text format; only a line feed ends a line."""
    series: dict[Series, float] = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        assert match, line
        labels = {name: _plain(value) for name, value in LABEL.findall(match[2] or "")}
        series[match[1], frozenset(labels.items())] = float(match[3])
    return series


def picked(series: Mapping[Series, float], name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Return the series of one name: labels -> value."""
    return {labels: value for (series_name, labels), value in series.items() if series_name == name}


def _plain(value: str) -> str:
    return re.sub(r"\\.", lambda match: ESCAPES.get(match[0], match[0]), value)


def _download(folder: Path) -> None:
    maven = jars.program("mvn", "Maven 3.8 or newer (for example the package `maven`)")
    words = [maven, "-B", "-q", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise ServersUnavailable("Maven did not finish: check its repository.") from late
    files = list(folder.glob("*.jar"))
    if done.returncode != 0 or len(files) != 1:
        raise ServersUnavailable(f"Maven could not download {ARTIFACT}. {done.stdout[-300:]}")
    if hashlib.sha256(files[0].read_bytes()).hexdigest() != SHA256:
        raise ServersUnavailable(f"{files[0].name} is not the pinned one.")
