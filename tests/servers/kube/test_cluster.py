"""Tests of the test cluster: users, controllers, admission, outages."""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.certs import Identity
from tests.servers.kube.api import APPLY_PATCH, Api, ApiRefused
from tests.servers.kube.cluster import KubeCluster, ToolFailed
from tests.servers.kube.counts import Request

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/{}/configmaps"


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_the_crds_of_the_repository_are_installed(kube: KubeCluster) -> None:
    names = kube.kubectl("api-resources", "--categories=kafka-quotas", "-o", "name").stdout.split()
    assert names == ["clientquotas.kafka-quotas.io", "quotaclusters.kafka-quotas.io"]


def test_a_failure_of_kubectl_is_told_unless_it_is_expected(kube: KubeCluster) -> None:
    with pytest.raises(ToolFailed, match=r'(?s)`kubectl get pod nobody`.*"nobody" not found'):
        kube.kubectl("get", "pod", "nobody")
    assert kube.kubectl("get", "pod", "nobody", check=False).returncode == 1


def test_a_service_account_has_the_rights_it_was_given_and_no_others(
    kube: KubeCluster, kube_namespace: str
) -> None:
    kube.kubectl("create", "serviceaccount", "reader", "-n", kube_namespace)
    kubeconfig = kube.kubeconfig_for(kube_namespace, "reader")
    refused = kube.kubectl("get", "clientquotas", kubeconfig=kubeconfig, check=False)
    assert "is forbidden" in refused.stderr
    kube.kubectl(
        "create", "role", "reads", "--verb=list", "--resource=clientquotas", "-n", kube_namespace
    )
    account = f"--serviceaccount={kube_namespace}:reader"
    kube.kubectl("create", "rolebinding", "reads", "--role=reads", account, "-n", kube_namespace)
    allowed = kube.kubectl("get", "clientquotas", kubeconfig=kubeconfig)
    assert allowed.stderr == f"No resources found in {kube_namespace} namespace.\n"
    with_token = kube.connect(token=kube.token(kube_namespace, "reader"))
    assert with_token.get("/api/v1/secrets").status == 403
    with_token.close()


def test_requests_are_counted_by_verb_and_resource(kube: KubeCluster, kube_namespace: str) -> None:
    path = MAPS.format(kube_namespace)
    before = kube.metrics()
    kube.api.call("POST", path, config_map("one")).need()
    for _ in range(2):
        kube.api.call(
            "PATCH",
            f"{path}/two",
            config_map("two"),
            kind=APPLY_PATCH,
            query={"fieldManager": "test"},
        ).need()
    kube.api.get(f"{path}/one").need()
    expected = {Request("POST", "configmaps"): 1, Request("APPLY", "configmaps"): 2}

    def counted() -> bool:
        counts = kube.metrics() - before
        return {key: counts[key] for key in expected} == expected

    kube.wait_until(counted, "count three writes", seconds=10)
    assert [key.writes for key in (*expected, Request("GET", "configmaps"))] == [True, True, False]


def test_a_refusal_is_an_answer_until_success_is_needed(kube: KubeCluster) -> None:
    answer = kube.api.call("POST", MAPS.format("nowhere"), config_map("one"))
    assert answer.status == 404
    with pytest.raises(ApiRefused, match='404: namespaces "nowhere" not found'):
        answer.need()


def test_deployments_roll_out_and_jobs_complete_without_a_kubelet(
    kube: KubeCluster, kube_namespace: str
) -> None:
    inside = ("-n", kube_namespace)
    with kube.pods_become_ready():
        kube.kubectl("create", "deployment", "web", "--image=none", "--replicas=2", *inside)
        kube.kubectl("rollout", "status", "deployment/web", "--timeout=30s", *inside)
        kube.kubectl("create", "job", "once", "--image=none", *inside)
        kube.kubectl("wait", "--for=condition=complete", "job/once", "--timeout=30s", *inside)
    kube.kubectl("delete", "deployment", "web", "--timeout=30s", *inside)


def test_helm_installs_waits_and_uninstalls(
    kube: KubeCluster, kube_namespace: str, tmp_path: Path
) -> None:
    kube.helm("create", str(tmp_path / "demo"))
    inside = ("-n", kube_namespace)
    with kube.pods_become_ready():
        kube.helm("install", "demo", str(tmp_path / "demo"), "--wait", "--timeout=60s", *inside)
        kube.helm("test", "demo", "--timeout=60s", *inside)
        kube.helm("uninstall", "demo", "--wait", "--timeout=60s", *inside)
    assert json.loads(kube.helm("list", "-o", "json", *inside).stdout) == []


def test_pods_that_pod_security_forbids_are_refused(kube: KubeCluster) -> None:
    name = kube.fresh_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    answer = kube.kubectl("run", "root", "--image=none", "-n", name, check=False)
    assert "violates PodSecurity" in answer.stderr
    kube.kubectl("delete", "namespace", name, "--wait=false")


def test_an_admission_policy_refuses(kube: KubeCluster, kube_namespace: str) -> None:
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
    ]
    where = {"matchLabels": {"kubernetes.io/metadata.name": kube_namespace}}
    group = "admissionregistration.k8s.io/v1"
    kube.apply(
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": kube_namespace},
            "spec": {
                "matchConstraints": {"resourceRules": rules, "namespaceSelector": where},
                "validations": [
                    {"expression": "object.metadata.name != 'no'", "message": "not no"}
                ],
            },
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": kube_namespace},
            "spec": {"policyName": kube_namespace, "validationActions": ["Deny"]},
        },
    )
    path = MAPS.format(kube_namespace)

    def refused() -> bool:
        answer = kube.api.call("POST", path, config_map("no"), query={"dryRun": "All"})
        return answer.status == 422 and "not no" in answer.message

    kube.wait_until(refused, "enforce the policy", seconds=30)
    kube.api.call("POST", path, config_map("yes"), query={"dryRun": "All"}).need()
    kube.kubectl(
        "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", kube_namespace
    )


class Refuses(http.server.BaseHTTPRequestHandler):
    """A validating webhook that refuses every request."""

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {
            "uid": document["request"]["uid"],
            "allowed": False,
            "status": {"message": f"no {document['request']['name']} here"},
        }
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        }
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Log nothing."""


@pytest.fixture
def webhook(kube: KubeCluster) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    identity: Identity = kube.authority.server("webhook")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(identity.certificate, identity.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_webhook_by_url_is_asked_even_in_a_dry_run(
    kube: KubeCluster, kube_namespace: str, webhook: str
) -> None:
    hook = {
        "name": "refuses.kafka-quotas.io",
        "clientConfig": {
            "url": webhook,
            "caBundle": base64.b64encode(kube.ca_file.read_bytes()).decode(),
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube_namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": kube_namespace},
            "webhooks": [hook],
        }
    )

    def refused() -> bool:
        path = MAPS.format(kube_namespace)
        answer = kube.api.call("POST", path, config_map("one"), query={"dryRun": "All"})
        return "no one here" in answer.message

    kube.wait_until(refused, "ask the webhook", seconds=30)
    kube.kubectl("delete", "validatingwebhookconfiguration", kube_namespace)


def test_after_an_outage_objects_and_tokens_are_still_good(
    kube: KubeCluster, kube_namespace: str
) -> None:
    kube.api.call("POST", MAPS.format(kube_namespace), config_map("kept", word="here")).need()
    with_token: Api = kube.connect(token=kube.token(kube_namespace, "default"))
    kube.stop_apiserver()
    assert not kube.running
    with pytest.raises(OSError, match="refused"):
        with_token.get("/api")
    kube.start_apiserver()
    assert with_token.get("/api").ok
    with_token.close()
    stored = kube.api.get(f"{MAPS.format(kube_namespace)}/kept").need()
    assert stored["data"] == {"word": "here"}


def test_what_a_test_has_killed_is_started_again_for_the_next(kube: KubeCluster) -> None:
    kube.kill_apiserver()
    kube.heal()
    assert kube.running
    assert kube.api.get("/readyz").ok


def test_an_owner_takes_its_dependants_along(kube: KubeCluster, kube_namespace: str) -> None:
    path = MAPS.format(kube_namespace)
    owner = kube.api.call("POST", path, config_map("owner")).need()
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    dependant = config_map("dependant")
    dependant["metadata"] = {"name": "dependant", "ownerReferences": [reference]}
    kube.api.call("POST", path, dependant).need()
    kube.api.call("DELETE", f"{path}/owner").need()
    kube.wait_until(lambda: kube.api.get(f"{path}/dependant").status == 404, "collect", seconds=30)
