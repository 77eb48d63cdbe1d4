{{/* Names, labels and the parts that several manifests share. */}}

{{- define "kqr.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" | trimSuffix "." -}}
{{- end -}}

{{/* At most 50 characters, so that every suffix of ours still fits into a label. */}}
{{- define "kqr.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" | trimSuffix "." -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" | trimSuffix "." -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" | trimSuffix "." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Cluster-scoped names carry the namespace: two releases of one name do not meet. Call with (list $ "suffix"). */}}
{{- define "kqr.clusterName" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s.%s" (include "kqr.fullname" $root) (index . 1) $root.Release.Namespace -}}
{{- end -}}

{{- define "kqr.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kqr.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "kqr.labels" -}}
{{ include "kqr.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: kafka-quota-reconciler
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kqr.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kqr.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kqr.releaseAccount" -}}
{{- printf "%s-release" (include "kqr.fullname" .) -}}
{{- end -}}

{{- define "kqr.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "kqr.serviceAccount" .) -}}
{{- end -}}

{{- define "kqr.releaseUser" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "kqr.releaseAccount" .) -}}
{{- end -}}

{{- define "kqr.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest -}}
{{- printf "%s:%s@%s" .Values.image.repository $tag .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "kqr.leaseName" -}}
{{- default (include "kqr.fullname" .) .Values.leaderElection.leaseName -}}
{{- end -}}

{{- define "kqr.quotaClustersConfigMap" -}}
{{- default (printf "%s-quotaclusters" (include "kqr.fullname" .)) .Values.quotaClusters.fromFile.existingConfigMap -}}
{{- end -}}

{{- define "kqr.webhookSecret" -}}
{{- default (printf "%s-webhook-tls" (include "kqr.fullname" .)) .Values.webhook.certificate.existingSecret -}}
{{- end -}}

{{/* What the operator, its check and its release agree on: what is watched, and where our own things are. */}}
{{- define "kqr.scopeArgs" -}}
{{- range .Values.watch.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- end -}}

{{- define "kqr.placeArgs" -}}
- --operator-namespace={{ .Release.Namespace }}
{{- include "kqr.scopeArgs" . }}
{{- with .Values.operator.class }}
- --operator-class={{ . }}
{{- end }}
{{- if .Values.quotaClusters.fromFile.enabled }}
- --quota-clusters=/etc/kquota/quotaclusters/{{ .Values.quotaClusters.fromFile.key }}
{{- end }}
{{- if .Values.operator.allowReferences }}
- --allow-references
{{- end }}
{{- end -}}

{{- define "kqr.leaseArgs" -}}
{{- if .Values.leaderElection.enabled }}
- --leader-elect
- --lease-name={{ include "kqr.leaseName" . }}
{{- else }}
- --no-leader-elect
{{- end }}
{{- end -}}

{{- define "kqr.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kqr.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.quotaClusters.fromFile.enabled }}
- name: quotaclusters
  mountPath: /etc/kquota/quotaclusters
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kqr.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if .Values.quotaClusters.fromFile.enabled }}
- name: quotaclusters
  configMap:
    name: {{ include "kqr.quotaClustersConfigMap" . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The pod-level settings that every pod of ours has. */}}
{{- define "kqr.podSettings" -}}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Image, security and resources of a container. */}}
{{- define "kqr.containerSettings" -}}
image: {{ include "kqr.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end -}}

{{/* Where resources of the Prometheus operator are rendered. Call with (list $ "Kind"); gives "true" or nothing. */}}
{{- define "kqr.monitoring" -}}
{{- $root := index . 0 -}}
{{- $known := $root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 1)) -}}
{{- $mode := $root.Values.metrics.renderMode -}}
{{- if and (eq $mode "failIfMissing") (not $known) -}}
{{- fail (printf "the cluster does not know monitoring.coreos.com/v1 %s: install the Prometheus operator, or set metrics.renderMode" (index . 1)) -}}
{{- end -}}
{{- if or $known (ne $mode "skipIfMissing") -}}true{{- end -}}
{{- end -}}

{{/* The namespaces that are watched, as a selector of namespaces; nothing if all are. Call with (list $ extraSelector). */}}
{{- define "kqr.namespaceSelector" -}}
{{- $root := index . 0 -}}
{{- $selector := deepCopy (index . 1) -}}
{{- if $root.Values.watch.namespaces -}}
{{- $mine := dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" $root.Values.watch.namespaces -}}
{{- $_ := set $selector "matchExpressions" (append ($selector.matchExpressions | default list) $mine) -}}
{{- end -}}
{{- if $selector -}}
{{- toYaml $selector -}}
{{- end -}}
{{- end -}}

{{/* A number or quantity from the values as plain text: YAML numbers arrive as floats. */}}
{{- define "kqr.plain" -}}
{{- if kindIs "string" . }}{{ . }}{{ else if eq (float64 .) (float64 (int64 .)) }}{{ int64 . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{/* What a CRD of ours gets on top of its text. */}}
{{- define "kqr.crdMetadata" -}}
labels:
  {{- include "kqr.labels" . | nindent 2 }}
{{- $annotations := deepCopy .Values.crds.annotations }}
{{- if .Values.crds.keep }}
{{- $_ := set $annotations "helm.sh/resource-policy" "keep" }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
