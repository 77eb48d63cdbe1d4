"""This package on machines that run parts of jobs: transforms are native, but what is asked of the core runs in Python there."""

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
"""Spark puts files of this ending on the path of its workers; those that end with .whl it only copies."""


@contextmanager
def shipped(spark: SparkSession) -> Iterator[None]:
    """While the block runs, Python workers on other machines find the package; they need pyarrow besides."""
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
    """The package as one zip file, from its folder or from the wheel that it runs from."""
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
