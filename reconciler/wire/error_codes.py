"""Kafka's error codes: number, name, whether a retry can help, and a short explanation.

Source: ``org.apache.kafka.common.protocol.Errors`` at Kafka 4.4.0; ``retriable`` follows the class of
its exception. ``error_code(n)`` accepts unknown codes of newer brokers, too.
"""

from typing import Final

from msgspec import Struct


class ErrorCode(Struct, frozen=True):
    """One error code."""

    number: int
    name: str  # Kafka's name, or `UNKNOWN(n)`
    sentence: str  # what it means, without a capital or a full stop
    retriable: bool = False  # true if Kafka declares that the same request may succeed later

    def __str__(self) -> str:
        return f"{self.name} ({self.number})"


def error_code(number: int) -> ErrorCode:
    """Return the error code of a number; an unknown one is not retriable and keeps its number."""
    known_code = ERROR_CODES.get(number)
    if known_code is not None:
        return known_code
    return ErrorCode(
        number=number, name=f"UNKNOWN({number})", sentence="a code that this version does not know"
    )


UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
REQUEST_TIMED_OUT: Final = 7
CLUSTER_AUTHORIZATION_FAILED: Final = 31
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
SASL_AUTHENTICATION_FAILED: Final = 58
RESOURCE_NOT_FOUND: Final = 91
DUPLICATE_RESOURCE: Final = 92
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
REBOOTSTRAP_REQUIRED: Final = 129

_TABLE: Final = """
 -1 UNKNOWN_SERVER_ERROR                        the broker failed in a way it does not describe; its log may
  0 NONE                                        no error
  1 OFFSET_OUT_OF_RANGE                         the offset lies outside what the log holds
  2 CORRUPT_MESSAGE*                            a record failed its checksum, is too large, or lacks a key it must have
  3 UNKNOWN_TOPIC_OR_PARTITION*                 this broker has no such topic or partition
  4 INVALID_FETCH_SIZE                          the fetch size makes no sense
  5 LEADER_NOT_AVAILABLE*                       the partition is electing a leader
  6 NOT_LEADER_OR_FOLLOWER*                     this broker does not lead, or does not follow, the partition
  7 REQUEST_TIMED_OUT*                          the broker gave up waiting; a change that it was asked for may still be made
  8 BROKER_NOT_AVAILABLE                        the broker is not available
  9 REPLICA_NOT_AVAILABLE*                      this broker has no usable replica of the partition
 10 MESSAGE_TOO_LARGE                           a message exceeds what the broker accepts
 11 STALE_CONTROLLER_EPOCH                      the sender is a controller that has been replaced
 12 OFFSET_METADATA_TOO_LARGE                   the note beside a committed offset is too long
 13 NETWORK_EXCEPTION*                          the broker closed the connection before the response
 14 COORDINATOR_LOAD_IN_PROGRESS*               the coordinator is still reading its state
 15 COORDINATOR_NOT_AVAILABLE*                  no coordinator is available
 16 NOT_COORDINATOR*                            another broker coordinates this group or transaction
 17 INVALID_TOPIC_EXCEPTION                     the topic may not be used like this
 18 RECORD_LIST_TOO_LARGE                       the batch is larger than the log takes at once
 19 NOT_ENOUGH_REPLICAS*                        too few replicas are in sync to accept the write
 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND*           the write was made, but on too few replicas
 21 INVALID_REQUIRED_ACKS                       the number of acknowledgements asked for makes no sense
 22 ILLEGAL_GENERATION                          the group has moved on to another generation
 23 INCONSISTENT_GROUP_PROTOCOL                 the member shares no protocol with its group
 24 INVALID_GROUP_ID                            the group id may not be used
 25 UNKNOWN_MEMBER_ID                           the coordinator does not know this member
 26 INVALID_SESSION_TIMEOUT                     the session timeout is outside the broker's bounds
 27 REBALANCE_IN_PROGRESS                       the group is rebalancing
 28 INVALID_COMMIT_OFFSET_SIZE                  the offset commit is too large
 29 TOPIC_AUTHORIZATION_FAILED                  the principal may not do this to the topic
 30 GROUP_AUTHORIZATION_FAILED                  the principal may not do this to the group
 31 CLUSTER_AUTHORIZATION_FAILED                the principal may not do this to the cluster
 32 INVALID_TIMESTAMP                           a record's time is outside the bounds of the topic
 33 UNSUPPORTED_SASL_MECHANISM                  this listener does not accept the SASL mechanism
 34 ILLEGAL_SASL_STATE                          the request does not fit the state of the SASL exchange
 35 UNSUPPORTED_VERSION                         the broker does not know this version or what is asked for in it
 36 TOPIC_ALREADY_EXISTS                        a topic of that name exists
 37 INVALID_PARTITIONS                          the number of partitions makes no sense
 38 INVALID_REPLICATION_FACTOR                  the replication factor is below 1 or above the number of brokers
 39 INVALID_REPLICA_ASSIGNMENT                  the assignment of replicas makes no sense
 40 INVALID_CONFIG                              a setting is not valid
 41 NOT_CONTROLLER*                             the request reached a node that is not the active controller
 42 INVALID_REQUEST                             the broker finds the request wrong; its message says where
 43 UNSUPPORTED_FOR_MESSAGE_FORMAT              the log's message format does not allow this
 44 POLICY_VIOLATION                            a policy or a limit on the size of one change refuses the request
 45 OUT_OF_ORDER_SEQUENCE_NUMBER                the producer's sequence has a gap
 46 DUPLICATE_SEQUENCE_NUMBER                   the producer's sequence number was seen before
 47 INVALID_PRODUCER_EPOCH                      the producer's epoch is old
 48 INVALID_TXN_STATE                           the transaction's state does not allow this
 49 INVALID_PRODUCER_ID_MAPPING                 the producer id does not belong to the transactional id
 50 INVALID_TRANSACTION_TIMEOUT                 the transaction timeout is above the broker's bound
 51 CONCURRENT_TRANSACTIONS*                    another operation on the same transaction is under way
 52 TRANSACTION_COORDINATOR_FENCED              the transaction coordinator has been replaced
 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED       the principal may not use the transactional id
 54 SECURITY_DISABLED                           the broker has no authorizer
 55 OPERATION_NOT_ATTEMPTED                     the broker left this part out because another part failed
 56 KAFKA_STORAGE_ERROR*                        the broker cannot read or write its disk
 57 LOG_DIR_NOT_FOUND                           the broker has no such log directory
 58 SASL_AUTHENTICATION_FAILED                  the broker refused the credentials
 59 UNKNOWN_PRODUCER_ID                         the broker no longer knows the producer id
 60 REASSIGNMENT_IN_PROGRESS                    the partition is being reassigned
 61 DELEGATION_TOKEN_AUTH_DISABLED              delegation tokens are switched off
 62 DELEGATION_TOKEN_NOT_FOUND                  the broker has no such delegation token
 63 DELEGATION_TOKEN_OWNER_MISMATCH             the delegation token belongs to someone else
 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED        delegation tokens cannot be managed over this kind of connection
 65 DELEGATION_TOKEN_AUTHORIZATION_FAILED       the principal may not manage this delegation token
 66 DELEGATION_TOKEN_EXPIRED                    the delegation token has expired
 67 INVALID_PRINCIPAL_TYPE                      the type of principal is not supported
 68 NON_EMPTY_GROUP                             the group has members
 69 GROUP_ID_NOT_FOUND                          the group does not exist
 70 FETCH_SESSION_ID_NOT_FOUND*                 the fetch session does not exist
 71 INVALID_FETCH_SESSION_EPOCH*                the fetch session is at another epoch
 72 LISTENER_NOT_FOUND*                         the leader lacks a listener of the name this request came by
 73 TOPIC_DELETION_DISABLED                     topics may not be deleted here
 74 FENCED_LEADER_EPOCH*                        the request's leader epoch is older than the broker's
 75 UNKNOWN_LEADER_EPOCH*                       the request's leader epoch is newer than the broker's
 76 UNSUPPORTED_COMPRESSION_TYPE                the client does not know the compression of the partition
 77 STALE_BROKER_EPOCH                          the broker has registered again since
 78 OFFSET_NOT_AVAILABLE*                       the new leader does not know its high watermark yet
 79 MEMBER_ID_REQUIRED                          the member needs an id before it may join
 80 PREFERRED_LEADER_NOT_AVAILABLE*             the preferred leader is not available
 81 GROUP_MAX_SIZE_REACHED                      the group is full
 82 FENCED_INSTANCE_ID                          another member has taken over the static instance id
 83 ELIGIBLE_LEADERS_NOT_AVAILABLE*             no replica may become leader
 84 ELECTION_NOT_NEEDED*                        the partition needs no election
 85 NO_REASSIGNMENT_IN_PROGRESS                 no reassignment is under way
 86 GROUP_SUBSCRIBED_TO_TOPIC                   the group still reads the topic
 87 INVALID_RECORD                              the broker refuses a record's content
 88 UNSTABLE_OFFSET_COMMIT*                     offsets of an open transaction are in the way
 89 THROTTLING_QUOTA_EXCEEDED*                  a quota on this operation is used up for now
 90 PRODUCER_FENCED                             a newer producer uses the same transactional id
 91 RESOURCE_NOT_FOUND                          what the request names does not exist
 92 DUPLICATE_RESOURCE                          the request names the same thing twice
 93 UNACCEPTABLE_CREDENTIAL                     the credential does not meet the broker's rules
 94 INCONSISTENT_VOTER_SET                      sender or receiver is not among the expected voters
 95 INVALID_UPDATE_VERSION                      the version of the update makes no sense
 96 FEATURE_UPDATE_FAILED                       the features could not be updated
 97 PRINCIPAL_DESERIALIZATION_FAILURE           the controller could not read the forwarded principal
 98 SNAPSHOT_NOT_FOUND                          the snapshot does not exist
 99 POSITION_OUT_OF_RANGE                       the position lies outside the snapshot
100 UNKNOWN_TOPIC_ID*                           this broker has no topic of that id
101 DUPLICATE_BROKER_REGISTRATION               another broker uses this id
102 BROKER_ID_NOT_REGISTERED                    no broker of that id is registered
103 INCONSISTENT_TOPIC_ID*                      the log belongs to another topic id
104 INCONSISTENT_CLUSTER_ID                     the request is meant for another cluster
105 TRANSACTIONAL_ID_NOT_FOUND                  the transactional id does not exist
106 FETCH_SESSION_TOPIC_ID_ERROR*               the fetch session mixes topics with and without ids
107 INELIGIBLE_REPLICA                          a replica may not join the in-sync set
108 NEW_LEADER_ELECTED                          the change was made, and the leader is another one now
109 OFFSET_MOVED_TO_TIERED_STORAGE              the offset has moved to remote storage
110 FENCED_MEMBER_EPOCH                         the member must give up its partitions and join again
111 UNRELEASED_INSTANCE_ID                      another member still holds the instance id
112 UNSUPPORTED_ASSIGNOR                        the group does not support the assignor
113 STALE_MEMBER_EPOCH                          the member must first learn its new epoch
114 MISMATCHED_ENDPOINT_TYPE                    a broker was asked as a controller, or a controller as a broker
115 UNSUPPORTED_ENDPOINT_TYPE                   the node does not know this type of endpoint
116 UNKNOWN_CONTROLLER_ID                       no controller of that id is known
117 UNKNOWN_SUBSCRIPTION_ID                     the telemetry subscription is unknown or outdated
118 TELEMETRY_TOO_LARGE                         the telemetry is larger than the broker accepts
119 INVALID_REGISTRATION                        the controller refuses the broker's registration
120 TRANSACTION_ABORTABLE                       the transaction failed and can be aborted
121 INVALID_RECORD_STATE                        the record's state does not allow its acknowledgement
122 SHARE_SESSION_NOT_FOUND*                    the share session does not exist
123 INVALID_SHARE_SESSION_EPOCH*                the share session is at another epoch
124 FENCED_STATE_EPOCH                          the state has moved on to another epoch
125 INVALID_VOTER_KEY                           the voter's key is not the receiver's
126 DUPLICATE_VOTER                             the voter belongs to the voters already
127 VOTER_NOT_FOUND                             the voter does not belong to the voters
128 INVALID_REGULAR_EXPRESSION                  the regular expression is not valid
129 REBOOTSTRAP_REQUIRED                        the client's picture of the cluster is out of date: bootstrap again
130 STREAMS_INVALID_TOPOLOGY                    the topology is not valid
131 STREAMS_INVALID_TOPOLOGY_EPOCH              the topology's epoch is not valid
132 STREAMS_TOPOLOGY_FENCED                     the topology has been replaced by a newer one
133 SHARE_SESSION_LIMIT_REACHED*                no further share session can be opened
134 GROUP_DELETION_FAILED                       a group could not be deleted; its own message says why
135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED  the topology's description could not be updated
136 CONTROLLER_ID_NOT_REGISTERED                no controller of that id is registered
"""
"""A code a line: number, name (``*``: a retry can help), sentence."""


def _row(line: str) -> ErrorCode:
    number, name, sentence = line.split(maxsplit=2)
    return ErrorCode(
        number=int(number), name=name.rstrip("*"), sentence=sentence, retriable=name.endswith("*")
    )


ERROR_CODES: Final = {code.number: code for code in map(_row, _TABLE.strip().splitlines())}
"""Every code of Kafka 4.4.0 by its number."""
