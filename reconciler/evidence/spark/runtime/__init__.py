"""Sessions, the JVM, progress and errors of jobs."""
