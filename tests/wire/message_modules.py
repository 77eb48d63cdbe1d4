"""Any message of the small APIs, for laws that hold for all of them."""

from types import ModuleType

from hypothesis import strategies as st

from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.messages import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)

text = st.text(max_size=12)
maybe_text = st.one_of(st.none(), text)
int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16)
flags = st.booleans()


def some(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=3).map(tuple)


software = st.from_regex(api_versions._SOFTWARE, fullmatch=True)
code_but_refusal = int16.filter(lambda code: code != 35)
features = some(st.builds(api_versions.Feature, name=text, lowest=int16, highest=int16))

REQUESTS: dict[str, st.SearchStrategy[object]] = {
    "ApiVersions": st.builds(
        api_versions.ApiVersionsRequest,
        software_name=software,
        software_version=software,
        cluster_id=maybe_text,
        node_id=int32,
    ),
    "Metadata": st.builds(
        metadata.MetadataRequest,
        topics=st.one_of(
            st.none(), some(st.builds(metadata.RequestTopic, name=maybe_text, topic_id=uuids))
        ),
        allow_auto_topic_creation=flags,
        include_topic_operations=flags,
    ),
    "DescribeCluster": st.builds(
        describe_cluster.DescribeClusterRequest,
        include_operations=flags,
        endpoint_type=int8,
        include_fenced=flags,
    ),
    "SaslHandshake": st.builds(sasl_handshake.SaslHandshakeRequest, mechanism=text),
    "SaslAuthenticate": st.builds(
        sasl_authenticate.SaslAuthenticateRequest, token=st.binary(max_size=20)
    ),
    "DescribeUserScramCredentials": st.builds(
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest,
        users=st.one_of(st.none(), some(text)),
    ),
    "DescribeConfigs": st.builds(
        describe_configs.DescribeConfigsRequest,
        resources=some(
            st.builds(
                describe_configs.ConfigResource,
                resource_type=int8,
                name=text,
                keys=st.one_of(st.none(), some(text)),
            )
        ),
        include_synonyms=flags,
        include_documentation=flags,
    ),
}
"""Requests that the highest version of each API supports, by the API's name."""

_partitions = st.builds(
    metadata.Partition,
    index=int32,
    leader_id=int32,
    error_code=int16,
    leader_epoch=int32,
    replicas=some(int32),
    in_sync=some(int32),
    offline=some(int32),
)
_topics = st.builds(
    metadata.Topic,
    name=maybe_text,
    error_code=int16,
    topic_id=uuids,
    is_internal=flags,
    partitions=some(_partitions),
    operations=int32,
)
_settings = st.builds(
    describe_configs.ConfigEntry,
    name=text,
    value=maybe_text,
    read_only=flags,
    source=int8,
    is_sensitive=flags,
    synonyms=some(
        st.builds(describe_configs.ConfigSynonym, name=text, value=maybe_text, source=int8)
    ),
    config_type=int8,
    documentation=maybe_text,
)

RESPONSES: dict[str, st.SearchStrategy[object]] = {
    "ApiVersions": st.builds(
        api_versions.ApiVersionsResponse,
        error_code=code_but_refusal,
        apis=some(st.builds(api_versions.ApiRange, api_key=int16, lowest=int16, highest=int16)),
        throttle_time_ms=int32,
        features=features,
        finalized_epoch=int64,
        finalized=features,
        zk_migration_ready=flags,
    ),
    "Metadata": st.builds(
        metadata.MetadataResponse,
        throttle_time_ms=int32,
        brokers=some(
            st.builds(
                metadata.MetadataBroker, node_id=int32, host=text, port=int32, rack=maybe_text
            )
        ),
        cluster_id=maybe_text,
        controller_id=int32,
        topics=some(_topics),
        operations=st.just(metadata.OPERATIONS_NOT_ASKED),  # version 11 removed the field
        error_code=int16,
    ),
    "DescribeCluster": st.builds(
        describe_cluster.DescribeClusterResponse,
        cluster_id=text,
        throttle_time_ms=int32,
        error_code=int16,
        error_message=maybe_text,
        endpoint_type=int8,
        controller_id=int32,
        brokers=some(
            st.builds(
                describe_cluster.ClusterNode,
                node_id=int32,
                host=text,
                port=int32,
                rack=maybe_text,
                is_fenced=flags,
            )
        ),
        operations=int32,
    ),
    "SaslHandshake": st.builds(
        sasl_handshake.SaslHandshakeResponse, error_code=int16, mechanisms=some(text)
    ),
    "SaslAuthenticate": st.builds(
        sasl_authenticate.SaslAuthenticateResponse,
        error_code=int16,
        error_message=maybe_text,
        token=st.binary(max_size=20),
        session_lifetime_ms=int64,
    ),
    "DescribeUserScramCredentials": st.builds(
        describe_user_scram_credentials.DescribeUserScramCredentialsResponse,
        throttle_time_ms=int32,
        error_code=int16,
        error_message=maybe_text,
        users=some(
            st.builds(
                describe_user_scram_credentials.ScramUser,
                name=text,
                error_code=int16,
                error_message=maybe_text,
                credentials=some(
                    st.builds(
                        describe_user_scram_credentials.CredentialInfo,
                        mechanism=int8,
                        iterations=int32,
                    )
                ),
            )
        ),
    ),
    "DescribeConfigs": st.builds(
        describe_configs.DescribeConfigsResponse,
        throttle_time_ms=int32,
        results=some(
            st.builds(
                describe_configs.ConfigsResult,
                resource_type=int8,
                name=text,
                error_code=int16,
                error_message=maybe_text,
                settings=some(_settings),
            )
        ),
    ),
}
"""Responses that the highest version of each API supports."""

MODULES: tuple[tuple[KafkaApi, ModuleType], ...] = (
    (METADATA, metadata),
    (SASL_HANDSHAKE, sasl_handshake),
    (API_VERSIONS, api_versions),
    (DESCRIBE_CONFIGS, describe_configs),
    (SASL_AUTHENTICATE, sasl_authenticate),
    (DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials),
    (DESCRIBE_CLUSTER, describe_cluster),
)
VERSIONS = [
    (api, module, version)
    for api, module in MODULES
    for version in range(api.lowest, api.highest + 1)
]
