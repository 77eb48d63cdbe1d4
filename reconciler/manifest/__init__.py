"""Documents to desired state and back: strict YAML, the schema, the project file, export.

The only package that knows YAML. Texts come in as ``(path, text)`` pairs, from disk or from a git revision;
what goes out is ``quota.desired.Declaration`` with file and line, or every problem with file, line and column.
"""

from reconciler.manifest.loader import LoadedManifests, load_files, read_paths

__all__ = ["LoadedManifests", "load_files", "read_paths"]
