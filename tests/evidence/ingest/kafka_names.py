"""How Kafka and JMX write names: an independent implementation from their sources, to test the decoders."""

import urllib.parse

SPECIAL = '"*?\\'


def sanitized(name: str) -> str:
    """org.apache.kafka.common.utils.Sanitizer.sanitize: Java's URLEncoder, then `*` and `+` by hand."""
    encoded = urllib.parse.quote_plus(name, safe="*").replace("~", "%7E")
    return encoded.replace("*", "%2A").replace("+", "%20")


def jmx(name: str) -> str:
    """Sanitizer.jmxSanitize: quoted if it contains anything outside of [\\w-%\\. \\t]."""
    plain = all(
        character.isascii() and (character.isalnum() or character in "_-%. \t")
        for character in name
    )
    return name if plain else quoted(name)


def quoted(name: str) -> str:
    """javax.management.ObjectName.quote."""
    parts = ['"']
    for character in name:
        if character == "\n":
            parts.append("\\n")
        elif character in SPECIAL:
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join([*parts, '"'])
