"""How Kafka and JMX write names, written a second time from their sources: what the decoders are tested against."""

import urllib.parse

SPECIAL = '"*?\\'


def sanitized(name: str) -> str:
    """org.apache.kafka.common.utils.Sanitizer.sanitize: Java's URLEncoder, then `*` and `+` by hand."""
    encoded = urllib.parse.quote_plus(name, safe="*").replace("~", "%7E")
    return encoded.replace("*", "%2A").replace("+", "%20")


def jmx(name: str) -> str:
    """Sanitizer.jmxSanitize: quoted as soon as something else than [\\w-%\\. \\t] is in it."""
    plain = all(one.isascii() and (one.isalnum() or one in "_-%. \t") for one in name)
    return name if plain else quoted(name)


def quoted(name: str) -> str:
    """javax.management.ObjectName.quote."""
    found = ['"']
    for one in name:
        if one == "\n":
            found.append("\\n")
        elif one in SPECIAL:
            found.append("\\" + one)
        else:
            found.append(one)
    return "".join([*found, '"'])
