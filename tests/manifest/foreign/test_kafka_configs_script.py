"""Scripts of kafka-configs --alter: what their lines leave behind, and what is not read."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.keys import Key
from tests.manifest.foreign.import_results import limits, losses, read
from tests.manifest.samples import ODD_NAMES

P = "producer_byte_rate"
C = "consumer_byte_rate"
ALTER = "kafka-configs --bootstrap-server b:9092 --alter"
PAIR = f"{ALTER} --entity-type clients --entity-type users"


@pytest.mark.parametrize(
    ("line", "entity"),
    [
        (f"{ALTER} --add-config {P}=1024 --entity-type users --entity-name u", "user=u"),
        (
            f"{PAIR} --entity-default --entity-name 'u' --add-config '{P}=1024'",
            "user=u,client-id=<default>",
        ),
        (f'/opt/bin/kafka-configs.sh --alter --user "CN=a, O=\'b" --add-config={P}=1024', None),
        (f"{ALTER} --user-defaults --client c --add-config {P}=1024 # why", None),
        (f"kubectl exec k-0 -- {ALTER} --client-defaults --add-config {P}=1024", None),
        (f"{ALTER} \\\n  --user u \\\n --add-config {P}=1024", "user=u"),
    ],
)
def test_every_way_to_name_an_entity_is_read(line: str, entity: str | None):
    result = read("kafka-configs", f"#!/bin/sh\nset -euo pipefail\n\n# why\n{line}\n")
    assert not losses(result)
    (subject,) = limits(result)
    assert limits(result) == {entity or subject: {P: 1024.0}}


def test_lines_act_in_their_order():
    result = read(
        "kafka-configs",
        f"{ALTER} --user u --add-config '{P}=1024, {C}=1024'\n"
        f"{ALTER} --user u --add-config {P}=2048\n"
        f"{ALTER} --user u --delete-config {C}\n"
        f"{ALTER} --user v --add-config {C}=1024\n{ALTER} --user v --delete-config {C}\n",
    )
    assert limits(result) == {"user=u": {P: 2048.0}}
    assert not losses(result)


def test_topics_brokers_and_credentials_are_passed_over():
    result = read(
        "kafka-configs",
        f"{ALTER} --user u --add-config 'SCRAM-SHA-256=[iterations=4096,password=pw],{P}=1024'\n"
        f"{ALTER} --topic t --add-config retention.ms=1\n"
        f"{ALTER} --entity-type brokers --entity-default --add-config a=1\n"
        "kafka-configs --describe --bootstrap-server b:9092 --user u\n",
    )
    assert (limits(result), losses(result)) == ({"user=u": {P: 1024.0}}, [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{ALTER} --user "$u" --add-config {P}=1', "$ needs a shell"),
        (f"{ALTER} --user `id` --add-config {P}=1", "` needs a shell"),
        (f'{ALTER} --user "a`id`" --add-config {P}=1', "` needs a shell"),
        (f'{ALTER} --user "\\\\$u" --add-config {P}=1', "$ needs a shell"),
        (f"{ALTER} --user a* --add-config {P}=1", "* needs a shell"),
        (f"{ALTER} --user a --add-config {P}=1 && true", "& needs a shell"),
        ("for u in a b; do", "; needs a shell"),
        ("done", "not a kafka-configs command"),
        (f"echo {ALTER} --user a --add-config {P}=1", "not a kafka-configs command"),
        (f"{ALTER} --user 'a --add-config {P}=1", "a quote does not end"),
        (f"{ALTER} --user a --add-config-file f", "is not read"),
        (f"{ALTER} --user a --delete-config {P}", "which no line before it sets"),
        (f"{ALTER} --user a --add-config {P}", "not a list of key=value"),
        (f"{ALTER} --user a b --add-config {P}=1", "neither an option nor its value"),
        (f"{ALTER} --entity-type users --add-config {P}=1", "not one name for each"),
        (f"{ALTER} --entity-type planets --entity-name a --add-config {P}=1", "not one name"),
        (f"{ALTER} --user a --add-config leader_rate=1", "a quota key that manifests do not"),
        (f"{ALTER} --user a --add-config {P}=fast", "not a decimal number"),
    ],
)
def test_what_is_not_read_is_a_loss_at_its_line(line: str, message: str):
    result = read("kafka-configs", f"{ALTER} --user good --add-config {P}=1024\n\n{line}\n")
    assert limits(result) == {"user=good": {P: 1024.0}}
    ((number, _, text),) = losses(result)
    assert (number, message in text) == (3, True), text


@given(
    name=st.sampled_from([name for name in ODD_NAMES if "\n" not in name])
    | st.text(st.characters(codec="utf-8", exclude_characters="\n\x00"), min_size=1),
    key=st.sampled_from([Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE]),
)
def test_every_name_that_a_shell_would_pass_is_read(name: str, key: Key):
    line = shlex.join([*ALTER.split(), "--user", name, "--add-config", f"{key}=1024"])
    (declaration,) = read("kafka-configs", line).declarations
    assert declaration.entity == (name, False, False)
