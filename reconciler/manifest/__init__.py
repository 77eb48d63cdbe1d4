"""Manifests to desired state and back: strict YAML, the schema, the project file, export.

The only package that reads YAML. Input is ``(path, text)`` pairs, from disk or from a git revision; output is
:class:`~reconciler.quota.planner.desired_state.Declaration` with file and line, or all problems with file, line and column.
"""

from reconciler.manifest.loader import LoadedManifests, load_files, read_paths

__all__ = ["LoadedManifests", "load_files", "read_paths"]
