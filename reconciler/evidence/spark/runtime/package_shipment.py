"""Sends this package to machines that run parts of jobs: calls of ``quota`` and ``usage`` run there in Python workers."""

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import reconciler
from reconciler.evidence.spark.runtime.masters import is_connect, local_cores

NAME: Final = "kquota-package.zip"
"""Spark adds zip files to the path of Python workers; .whl files are only copied."""


@contextmanager
def shipped(spark: SparkSession) -> Iterator[None]:
    """Provide the package to Python workers on other machines while the block runs; they need pyarrow besides."""
    if not is_connect(spark) and local_cores(spark.sparkContext.master or ""):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kquota-") as folder:
        archive = packed(Path(folder))
        if is_connect(spark):
            spark.addArtifacts(str(archive), pyfile=True)
        else:
            spark.sparkContext.addPyFile(str(archive))
        yield


def packed(into: Path) -> Path:
    """Write the package as one zip file, from its folder or from the wheel it was imported from."""
    package_folder = Path(reconciler.__file__).parent
    target = into / NAME
    wheel = next((parent for parent in package_folder.parents if parent.is_file()), None)
    if wheel is not None:
        shutil.copyfile(wheel, target)
        return target
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package_folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(package_folder.parent))
    return target
