// Writes wire_versions.json: one body per message and version, by Kafka's own classes (kafka-clients 4.4.0).
// Run with kafka-clients and slf4j on the class path: java -cp 'JARS/*' WireVersions.java > wire_versions.json
// A body of null means that Kafka's classes refuse to write the message in that version.
import java.nio.ByteBuffer;
import java.util.*;

import org.apache.kafka.common.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

public class WireVersions {
  static List<String> out = new ArrayList<>();
  static void add(String name, String dir, int key, int lo, int hi, Message m) {
    for (int v = lo; v <= hi; v++) {
      String hex;
      try { ObjectSerializationCache c = new ObjectSerializationCache(); int n = m.size(c,(short)v); ByteBuffer b = ByteBuffer.allocate(n); m.write(new ByteBufferAccessor(b), c, (short)v);
        StringBuilder s = new StringBuilder(); for (byte x : b.array()) s.append(String.format("%02x", x)); hex = "\""+s+"\""; }
      catch (org.apache.kafka.common.errors.UnsupportedVersionException | NullPointerException e) { hex = "null"; }
      out.add(String.format(" {\"name\": \"%s\", \"direction\": \"%s\", \"api_key\": %d, \"api_version\": %d, \"body_hex\": %s}", name, dir, key, v, hex));
    }
  }
  public static void main(String[] a) {
    add("full","request",18,0,5,new ApiVersionsRequestData().setClientSoftwareName("kq").setClientSoftwareVersion("1.2").setClusterId("cid").setNodeId(3));
    add("plain","request",18,0,5,new ApiVersionsRequestData().setClientSoftwareName("kq").setClientSoftwareVersion("1.2"));
    ApiVersionsResponseData av = new ApiVersionsResponseData().setErrorCode((short)0).setThrottleTimeMs(7).setFinalizedFeaturesEpoch(17).setZkMigrationReady(true);
    av.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short)48).setMinVersion((short)0).setMaxVersion((short)1));
    av.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short)60).setMinVersion((short)0).setMaxVersion((short)2));
    av.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey().setName("metadata.version").setMinVersion((short)7).setMaxVersion((short)25));
    av.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey().setName("group.version").setMinVersion((short)1).setMaxVersion((short)2));
    av.finalizedFeatures().add(new ApiVersionsResponseData.FinalizedFeatureKey().setName("metadata.version").setMinVersionLevel((short)8).setMaxVersionLevel((short)24));
    add("full","response",18,0,5,av);
    Uuid id = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);
    List<MetadataRequestData.MetadataRequestTopic> ts = List.of(new MetadataRequestData.MetadataRequestTopic().setName("t"));
    add("topic","request",3,0,13,new MetadataRequestData().setTopics(ts).setAllowAutoTopicCreation(true));
    add("no_creation","request",3,0,13,new MetadataRequestData().setTopics(ts).setAllowAutoTopicCreation(false));
    add("all_topics","request",3,0,13,new MetadataRequestData().setTopics(null).setAllowAutoTopicCreation(true));
    add("cluster_operations","request",3,0,13,new MetadataRequestData().setTopics(ts).setAllowAutoTopicCreation(true).setIncludeClusterAuthorizedOperations(true));
    add("topic_operations","request",3,0,13,new MetadataRequestData().setTopics(ts).setAllowAutoTopicCreation(true).setIncludeTopicAuthorizedOperations(true));
    add("topic_by_id","request",3,10,13,new MetadataRequestData().setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(null).setTopicId(id))).setAllowAutoTopicCreation(true));
    MetadataResponseData md = new MetadataResponseData().setThrottleTimeMs(9).setClusterId("cid").setControllerId(2).setErrorCode((short)3);
    md.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("h1").setPort(9092).setRack("r"));
    md.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(2).setHost("h2").setPort(9093).setRack(null));
    MetadataResponseData.MetadataResponsePartition p = new MetadataResponseData.MetadataResponsePartition().setErrorCode((short)5).setPartitionIndex(4).setLeaderId(1).setLeaderEpoch(6).setReplicaNodes(List.of(1,2)).setIsrNodes(List.of(1)).setOfflineReplicas(List.of(2));
    md.topics().add(new MetadataResponseData.MetadataResponseTopic().setErrorCode((short)3).setName("t").setTopicId(id).setIsInternal(true).setPartitions(List.of(p)));
    add("full","response",3,0,13,md);
    MetadataResponseData md2 = md.duplicate(); md2.setClusterAuthorizedOperations(5120); md2.topics().find("t").setTopicAuthorizedOperations(264);
    add("operations","response",3,8,10,md2);
    add("plain","request",60,0,2,new DescribeClusterRequestData().setIncludeClusterAuthorizedOperations(true));
    add("controllers","request",60,0,2,new DescribeClusterRequestData().setEndpointType((byte)2));
    add("fenced","request",60,0,2,new DescribeClusterRequestData().setIncludeFencedBrokers(true));
    DescribeClusterResponseData dc = new DescribeClusterResponseData().setThrottleTimeMs(5).setErrorCode((short)1).setErrorMessage("m").setClusterId("cid").setControllerId(1).setClusterAuthorizedOperations(3072);
    dc.brokers().add(new DescribeClusterResponseData.DescribeClusterBroker().setBrokerId(1).setHost("h").setPort(9).setRack("r"));
    dc.brokers().add(new DescribeClusterResponseData.DescribeClusterBroker().setBrokerId(2).setHost("h2").setPort(10).setRack(null));
    add("full","response",60,0,2,dc);
    DescribeClusterResponseData dc2 = dc.duplicate().setEndpointType((byte)2); dc2.brokers().find(1).setIsFenced(true);
    add("fenced","response",60,2,2,dc2);
    add("plain","request",17,0,1,new SaslHandshakeRequestData().setMechanism("PLAIN"));
    add("full","response",17,0,1,new SaslHandshakeResponseData().setErrorCode((short)33).setMechanisms(List.of("PLAIN","OAUTHBEARER")));
    add("plain","request",36,0,2,new SaslAuthenticateRequestData().setAuthBytes(new byte[]{1,2,3}));
    add("full","response",36,0,2,new SaslAuthenticateResponseData().setErrorCode((short)58).setErrorMessage("no").setAuthBytes(new byte[]{4,5}).setSessionLifetimeMs(3600000L));
    DescribeConfigsRequestData.DescribeConfigsResource r1 = new DescribeConfigsRequestData.DescribeConfigsResource().setResourceType((byte)4).setResourceName("1").setConfigurationKeys(List.of("client.quota.callback.class","quota.window.num"));
    DescribeConfigsRequestData.DescribeConfigsResource r2 = new DescribeConfigsRequestData.DescribeConfigsResource().setResourceType((byte)2).setResourceName("t").setConfigurationKeys(null);
    add("plain","request",32,1,4,new DescribeConfigsRequestData().setResources(List.of(r1,r2)).setIncludeSynonyms(true));
    add("documentation","request",32,1,4,new DescribeConfigsRequestData().setResources(List.of(r1)).setIncludeDocumentation(true));
    DescribeConfigsResponseData.DescribeConfigsSynonym sy = new DescribeConfigsResponseData.DescribeConfigsSynonym().setName("s").setValue(null).setSource((byte)5);
    DescribeConfigsResponseData.DescribeConfigsResourceResult c1 = new DescribeConfigsResponseData.DescribeConfigsResourceResult().setName("quota.window.num").setValue("11").setReadOnly(true).setConfigSource((byte)5).setIsSensitive(false).setSynonyms(List.of(sy)).setConfigType((byte)3).setDocumentation("doc");
    DescribeConfigsResponseData.DescribeConfigsResourceResult c2 = new DescribeConfigsResponseData.DescribeConfigsResourceResult().setName("x").setValue(null).setReadOnly(false).setConfigSource((byte)4).setIsSensitive(true).setConfigType((byte)9).setDocumentation(null);
    add("full","response",32,1,4,new DescribeConfigsResponseData().setThrottleTimeMs(1).setResults(List.of(
      new DescribeConfigsResponseData.DescribeConfigsResult().setErrorCode((short)0).setErrorMessage(null).setResourceType((byte)4).setResourceName("1").setConfigs(List.of(c1,c2)),
      new DescribeConfigsResponseData.DescribeConfigsResult().setErrorCode((short)31).setErrorMessage("denied").setResourceType((byte)2).setResourceName("t"))));
    add("some","request",50,0,0,new DescribeUserScramCredentialsRequestData().setUsers(List.of(new DescribeUserScramCredentialsRequestData.UserName().setName("alice"), new DescribeUserScramCredentialsRequestData.UserName().setName("zoë"))));
    add("full","response",50,0,0,new DescribeUserScramCredentialsResponseData().setThrottleTimeMs(2).setErrorCode((short)0).setErrorMessage(null).setResults(List.of(
      new DescribeUserScramCredentialsResponseData.DescribeUserScramCredentialsResult().setUser("alice").setErrorMessage(null).setCredentialInfos(List.of(new DescribeUserScramCredentialsResponseData.CredentialInfo().setMechanism((byte)1).setIterations(4096), new DescribeUserScramCredentialsResponseData.CredentialInfo().setMechanism((byte)2).setIterations(8192))),
      new DescribeUserScramCredentialsResponseData.DescribeUserScramCredentialsResult().setUser("bob").setErrorCode((short)91).setErrorMessage("none"))));
    String longName = "n".repeat(300);
    DescribeClientQuotasResponseData dq = new DescribeClientQuotasResponseData().setThrottleTimeMs(3).setErrorMessage(null).setEntries(List.of(
      new DescribeClientQuotasResponseData.EntryData().setEntity(List.of(new DescribeClientQuotasResponseData.EntityData().setEntityType("client-id").setEntityName("app"), new DescribeClientQuotasResponseData.EntityData().setEntityType("user").setEntityName(longName))).setValues(List.of(new DescribeClientQuotasResponseData.ValueData().setKey("request_percentage").setValue(Double.NaN), new DescribeClientQuotasResponseData.ValueData().setKey("future_rate").setValue(0.1))),
      new DescribeClientQuotasResponseData.EntryData().setEntity(List.of(new DescribeClientQuotasResponseData.EntityData().setEntityType("ip").setEntityName(null))).setValues(List.of(new DescribeClientQuotasResponseData.ValueData().setKey("connection_creation_rate").setValue(Double.POSITIVE_INFINITY))),
      new DescribeClientQuotasResponseData.EntryData().setEntity(List.of(new DescribeClientQuotasResponseData.EntityData().setEntityType("group").setEntityName("g"))).setValues(List.of()),
      new DescribeClientQuotasResponseData.EntryData().setEntity(List.of(new DescribeClientQuotasResponseData.EntityData().setEntityType("user").setEntityName(""))).setValues(List.of(new DescribeClientQuotasResponseData.ValueData().setKey("producer_byte_rate").setValue(-0.0)))));
    add("full","response",48,0,1,dq);
    add("refused","response",48,0,1,new DescribeClientQuotasResponseData().setThrottleTimeMs(0).setErrorCode((short)31).setErrorMessage("Cluster authorization failed.").setEntries(null));
    add("any","request",48,0,1,new DescribeClientQuotasRequestData().setStrict(true).setComponents(List.of(new DescribeClientQuotasRequestData.ComponentData().setEntityType("user").setMatchType((byte)2).setMatch(null), new DescribeClientQuotasRequestData.ComponentData().setEntityType("ip").setMatchType((byte)0).setMatch("::1"))));
    AlterClientQuotasRequestData.EntityData eu = new AlterClientQuotasRequestData.EntityData().setEntityType("user").setEntityName(longName);
    AlterClientQuotasRequestData.EntityData ec = new AlterClientQuotasRequestData.EntityData().setEntityType("client-id").setEntityName(null);
    AlterClientQuotasRequestData.EntityData ez = new AlterClientQuotasRequestData.EntityData().setEntityType("user").setEntityName("zoë");
    add("full","request",49,0,1,new AlterClientQuotasRequestData().setValidateOnly(true).setEntries(List.of(
      new AlterClientQuotasRequestData.EntryData().setEntity(List.of(eu,ec)).setOps(List.of(new AlterClientQuotasRequestData.OpData().setKey("producer_byte_rate").setValue(1.5), new AlterClientQuotasRequestData.OpData().setKey("request_percentage").setRemove(true), new AlterClientQuotasRequestData.OpData().setKey("consumer_byte_rate").setValue(-0.0))),
      new AlterClientQuotasRequestData.EntryData().setEntity(List.of(ez)).setOps(List.of(new AlterClientQuotasRequestData.OpData().setKey("x").setRemove(true))),
      new AlterClientQuotasRequestData.EntryData().setEntity(List.of()).setOps(List.of(new AlterClientQuotasRequestData.OpData().setKey("x").setValue(3))),
      new AlterClientQuotasRequestData.EntryData().setEntity(List.of(ez)).setOps(List.of()))));
    add("full","response",49,0,1,new AlterClientQuotasResponseData().setThrottleTimeMs(4).setEntries(List.of(
      new AlterClientQuotasResponseData.EntryData().setErrorCode((short)0).setErrorMessage(null).setEntity(List.of(new AlterClientQuotasResponseData.EntityData().setEntityType("user").setEntityName("u"))),
      new AlterClientQuotasResponseData.EntryData().setErrorCode((short)42).setErrorMessage("bad").setEntity(List.of(new AlterClientQuotasResponseData.EntityData().setEntityType("client-id").setEntityName(null), new AlterClientQuotasResponseData.EntityData().setEntityType("user").setEntityName("zoë"))))));
    System.out.println("[\n" + String.join(",\n", out) + "\n]");
  }
}
