-- Asks for a reconciliation now; the operator answers in status.lastHandledReconcileAt.
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["kafka-quotas.io/requestedAt"] = os.date("!%Y-%m-%dT%XZ")
return obj
