"""How jobs run: sessions, the JVM, progress and errors."""
