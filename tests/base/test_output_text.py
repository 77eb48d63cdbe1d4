"""Hostile strings in every kind of output: no output controls a screen, a log or a CI host."""

import io
import json
import logging
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base import escaping
from reconciler.base.output_text import json_text, output_text
from reconciler.base.redaction import remember
from reconciler.cli.framework.commands import report_error
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.diagnostics import traceback_text
from reconciler.cli.framework.logs import JsonLogFormatter, OneLineFormatter
from reconciler.codecs.state import state_document
from reconciler.errors import KquotaError
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.kube.status.conditions import bounded
from reconciler.kube.status.events import ResourceEvent
from reconciler.manifest.writer import Declaration, document_text
from reconciler.quota import entity as entity_forms
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.cluster_state import state_text
from reconciler.render.json_values import dump
from tests.fakes.audit_entry import audit_entry

GOLDEN = Path(__file__).parents[1] / "golden" / "render"

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "a\n::set-output name=x::y",
    "a\r\n  ::add-mask::secret",
    "::error file=a,line=1::message",
    "a\u2028::stop-commands::x",
    "##vso[task.setvariable variable=x]y",
    "x ##[section]y",
    "###[error]z",
    "##teamcity[buildStatus text='x']",
    "section_start:1560896352:name\r\x1b[0Ktitle",
    "section_end:1560896352:name\r\x1b[0K",
    "admin\ufe0f",
    "admin\u3164",
    "\u115fadmin",
    "ad\u200bmin",
    "admin\u2800",
    "admin\U000e0100",
    "admin\u00ad",
    "\u202egnp.exe",
    "\u2067abc\u2069",
    "10 \u05d0 20",
    "\u0661\u0662",
    "\ufeffadmin",
    "a\x00b\x7fc\x85d",
    "a\u2029b",
    "a\tb",
    '"};alert(1)//',
    "back\\slash \\u0041",
    "\u0301combining",
    "__proto__",
    "-- ::group::x",
)


def subject(name: str) -> Entity:
    return entity(user=name, client_id=name)


def state(name: str) -> QuotaState:
    return QuotaState(
        limits={subject(name): limits_of({Key.PRODUCER_BYTE_RATE: 1024.0})},
        foreign_values={},
        foreign_entities=(),
    )


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("reconciler", logging.ERROR, "", 0, "%s", (message,), info)


def console() -> tuple[Console, io.StringIO, io.StringIO]:
    output, err = io.StringIO(), io.StringIO()
    return (
        Console(
            stdout=output,
            stderr=err,
            colour=False,
            err_colour=False,
            err_terminal=False,
            asks=False,
            width=80,
        ),
        output,
        err,
    )


def on_console(say: Callable[[Console], object]) -> str:
    terminal, output, err = console()
    say(terminal)
    return output.getvalue() + err.getvalue()


def debugged(text: str) -> str:
    return on_console(lambda terminal: report_error(terminal, KquotaError(text, hint=text)))


def audited(text: str) -> str:
    stream = io.StringIO()
    StreamAuditLog(stream).append([audit_entry(author=text)])
    return stream.getvalue()


def declared(name: str) -> str:
    return document_text(
        Declaration(
            document="d", entity=subject(name), limits=limits_of({Key.PRODUCER_BYTE_RATE: 1024.0})
        ),
        cluster="prod",
    )


SURFACES: dict[str, Callable[[str], str]] = {
    "text": lambda text: state_text(state(text)),
    "entity": lambda text: entity_forms.entity_text(subject(text)),
    "json": lambda text: dump(state_document(state(text), cluster_id=text, taken_at="")),
    "json of others": lambda text: json_text(json.dumps({text: [text]})),
    "yaml": declared,
    "fact": lambda text: on_console(lambda terminal: terminal.fact(text)),
    "note": lambda text: on_console(lambda terminal: terminal.note(text)),
    "error": lambda text: on_console(lambda terminal: terminal.error(text)),
    "question": lambda text: on_console(lambda terminal: terminal.question(text)),
    "debug": debugged,
    "traceback": lambda text: traceback_text(ValueError(text)),
    "json log": lambda text: JsonLogFormatter().format(record(text, ValueError(text))),
    "one line log": lambda text: OneLineFormatter(journal=False).format(
        record(text, ValueError(text))
    ),
    "audit": audited,
    "condition": bounded,
    "event": lambda text: ResourceEvent(kind="Normal", reason="X", note=text).note,
}

ACTS = re.compile(
    r"[^\n\t -~\u00a1-\U0010ffff]"
    r"|##[A-Za-z.]*\["
    r"|section_(?:start|end):"
    r"|^\s*::[A-Za-z][\w-]*( .*)?::",
    re.MULTILINE,
)


def acting(text: str) -> list[str]:
    """All characters of a text that control a terminal or are invisible."""
    hidden = [c for c in text if c not in "\n\t" and not escaping.is_shown(c)]
    return [match.group() for match in ACTS.finditer(text)] + hidden


@pytest.mark.parametrize("surface", SURFACES)
def test_no_output_surface_prints_control_sequences_of_a_hostile_text(
    surface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KQUOTA_DEBUG", "1")
    outputs = {text: acting(SURFACES[surface](text)) for text in HOSTILE}
    assert {text: acts for text, acts in outputs.items() if acts} == {}


ANY = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20),
    st.lists(
        st.sampled_from(["##", "[", "vso[", "section_start:", "::", "a", "\n", "\\", '"', "\u200b"])
    ).map("".join),
).filter(bool)


@given(ANY)
def test_escaped_json_and_yaml_decode_to_the_same_name(text: str) -> None:
    document = json.loads(SURFACES["json"](text))
    assert document["clusterId"] == text
    assert json.loads(SURFACES["json of others"](text)) == {text: [text]}
    assert json.loads(audited(text))["who"] == text
    assert yaml.safe_load(declared(text))["spec"]["entity"] == {
        "user": {"name": text},
        "clientId": {"name": text},
    }


def test_colours_of_kquota_are_kept_where_colour_is_enabled() -> None:
    assert output_text("\x1b[31mred\x1b[0m", colours=True) == "\x1b[31mred\x1b[0m"
    assert output_text("\x1b[31mred", colours=False) == "\\u001b[31mred"
    assert output_text("\x1b[2J", colours=True) == "\\u001b[2J"


@pytest.mark.parametrize(
    "path", [*GOLDEN.glob("*.md"), *GOLDEN.glob("*.txt")], ids=lambda path: path.name
)
def test_texts_of_renderers_are_unchanged_by_the_output_filter(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert output_text(text) == text


def test_a_secret_that_a_library_quotes_is_in_neither_log_nor_traceback() -> None:
    remember("pl4nted-bearer-Token")
    text = "401 for Authorization: Bearer pl4nted-bearer-Token at https://u:S3cret@h/?token=T0ken"
    for surface in ("json log", "one line log", "traceback"):
        output = SURFACES[surface](text)
        assert "401" in output
        for secret in ("pl4nted", "S3cret", "T0ken"):
            assert secret not in output


# ---- which characters are shown --------------------------------------------------------------

# DerivedCoreProperties.txt: Other_Default_Ignorable_Code_Point + Cf + Variation_Selector, less White_Space, the
# interlinear annotation characters, the format controls of Egyptian hieroglyphs and prepended concatenation marks.
VISIBLE_FORMAT = {
    *range(0xFFF9, 0xFFFC),
    *range(0x13430, 0x13440),
    0x0600,
    0x0601,
    0x0602,
    0x0603,
    0x0604,
    0x0605,
    0x06DD,
    0x070F,
    0x0890,
    0x0891,
    0x08E2,
    0x110BD,
    0x110CD,
}


def test_the_table_of_ignorable_characters_equals_that_of_unicode() -> None:
    table = {code for first, last in escaping.DEFAULT_IGNORABLE for code in range(first, last + 1)}
    assert len(table) == 4174
    derived = {
        code
        for code in range(0x110000)
        if (unicodedata.category(chr(code)) == "Cf" and code not in VISIBLE_FORMAT)
        or "VARIATION SELECTOR" in unicodedata.name(chr(code), "")
    }
    assert derived - table == set()
    named_codes = {code for code in table - derived if unicodedata.name(chr(code), "")}
    assert named_codes == {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0}


def test_invisible_characters_are_escaped() -> None:
    assert not [
        c
        for first, last in escaping.DEFAULT_IGNORABLE
        for c in map(chr, range(first, last + 1))
        if escaping.is_shown(c)
    ]
    assert not escaping.is_shown("\u2800")
    assert all(map(escaping.is_shown, "aé漢字→…│😀"))
