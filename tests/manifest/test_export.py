"""The files of an export: by team, form, prefix or entity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.manifest.export import Split, Team, document_names, file_names, team_of
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import Limits
from tests.manifest.samples import entities

LIMIT: Limits = (1024.0, None, None, None, None)
SUBJECTS = (
    entity(user="etl-nightly"),
    entity(user="etl_hourly", client_id="x"),
    entity(user="pay-api"),
    entity(user="alice", client_id=DEFAULT),
    entity(client_id="etl-loader"),
    entity(ip="10.0.0.7"),
    entity(user=DEFAULT),
    entity(ip=DEFAULT),
)


def documents(*subjects: Entity) -> list[Declaration]:
    names = document_names(subjects)
    return [
        Declaration(document=f"default/{names[subject]}", entity=subject, limits=LIMIT)
        for subject in subjects
    ]


def test_by_form_there_is_one_file_for_each_form_and_one_for_all_defaults():
    assert file_names(documents(*SUBJECTS), Split.FORM) == (
        "users.yaml",
        "users-with-client-ids.yaml",
        "users.yaml",
        "users-with-default-client-id.yaml",
        "client-ids.yaml",
        "ips.yaml",
        "defaults.yaml",
        "defaults.yaml",
    )


def test_by_prefix_names_that_share_their_first_word_share_a_file():
    assert file_names(documents(*SUBJECTS), Split.PREFIX) == (
        "etl.yaml",
        "etl.yaml",
        "users.yaml",
        "users-with-default-client-id.yaml",
        "etl.yaml",
        "ips.yaml",
        "defaults.yaml",
        "defaults.yaml",
    )


def test_by_entity_each_document_has_a_file_of_its_name():
    assert file_names(documents(*SUBJECTS[:2]), Split.ENTITY) == (
        "user.etl-nightly.yaml",
        "user.etl-hourly.client.x.yaml",
    )


def test_the_documents_of_a_team_are_in_its_folder_and_the_longest_prefix_applies():
    teams = (Team(prefix="etl", namespace="data"), Team(prefix="etl_", namespace="hourly"))
    assert file_names(documents(*SUBJECTS[:3]), Split.FORM, teams) == (
        "data/users.yaml",
        "hourly/users-with-client-ids.yaml",
        "users.yaml",
    )
    assert team_of(entity(client_id="etl-loader"), teams) == teams[0]
    assert team_of(entity(user=DEFAULT, client_id="etl-loader"), teams) == teams[0]
    assert team_of(entity(ip="10.0.0.7"), teams) is None


@pytest.mark.parametrize(
    ("prefix", "namespace"), [("", "data"), ("etl-", "Data"), ("etl-", ""), ("etl-", "../up")]
)
def test_a_team_requires_a_prefix_and_a_namespace(prefix, namespace):
    with pytest.raises(QuotaValueError):
        Team(prefix=prefix, namespace=namespace)


@given(st.sets(entities, max_size=12), st.sampled_from(Split))
def test_a_file_is_always_inside_the_folder(subjects, split):
    for name in file_names(documents(*subjects), split):
        assert "/" not in name
        assert not name.startswith(".")
        assert name.endswith(".yaml")
