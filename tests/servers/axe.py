"""axe-core, the accessibility checker: a pinned npm package, verified by its integrity hash, run inside a page."""

import base64
import hashlib
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.servers import jars
from tests.servers.chromium import Browser
from tests.servers.processes import HANG_SECONDS

VERSION = "4.14.1"
INTEGRITY = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def script() -> str:
    """Return the text of axe.min.js.

    Raises:
        ServersUnavailable: npm is missing or cannot download.
    """
    folder = jars.cached(f"axe-core-{VERSION}-{jars.digest(INTEGRITY)}", _download)
    return (folder / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser) -> list[str]:
    """Return the violations of the current page: rule, its help text, and the elements."""
    browser.run(script() + "\nwindow.axe = axe;")
    answer: dict[str, Any] = browser.driver.execute_async_script(
        "const done = arguments[1]; axe.run(document, arguments[0]).then(done, (error) => done({error: String(error)}));",
        RULES,
    )
    assert "error" not in answer, answer["error"]
    assert answer["passes"], "axe checked nothing"
    return [
        f"{violation['id']}: {violation['help']}: {', '.join(str(node['target']) for node in violation['nodes'][:5])}"
        for violation in answer["violations"]
    ]


def _download(folder: Path) -> None:
    npm = jars.program("npm", "Node.js with npm (for example the packages nodejs and npm)")
    answer = subprocess.run(
        [npm, "pack", "--silent", "--ignore-scripts", f"axe-core@{VERSION}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    packed = next(folder.glob("axe-core-*.tgz"), None)
    if answer.returncode != 0 or packed is None:
        raise jars.ServersUnavailable(f"npm could not download axe-core: {answer.stderr[-300:]}")
    digest = hashlib.sha512(packed.read_bytes()).digest()
    assert f"sha512-{base64.b64encode(digest).decode()}" == INTEGRITY, "not the pinned axe-core"
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        (folder / "axe.min.js").write_bytes(member.read())
