"""Sessions and the JVM."""
