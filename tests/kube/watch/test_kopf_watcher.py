"""The settings of Kopf as a watcher: it writes nothing, and needs no right that the chart does not grant."""

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.watch.kopf_watcher import settings


def test_kopf_does_not_use_the_finalizer_of_kquota():
    # Kopf removes its finalizer from every object that no deletion handler needs.
    assert settings().persistence.finalizer != FINALIZER


def test_kopf_posts_no_events_and_watches_no_definitions():
    kopf_settings = settings()
    assert kopf_settings.posting.enabled is False
    assert kopf_settings.scanning.disabled is True


def test_a_stop_does_not_wait_for_events_that_kopf_has_not_handled():
    assert settings().queueing.exit_timeout == 0
