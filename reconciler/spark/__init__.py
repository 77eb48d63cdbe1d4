"""The main file for spark-submit and ``python -m reconciler.spark``; the jobs are in ``reconciler.evidence.spark``."""
