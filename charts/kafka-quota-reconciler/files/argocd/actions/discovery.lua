-- Which actions Argo CD offers for a ClientQuota or a QuotaCluster.
local suspended = obj.spec ~= nil and obj.spec.suspend == true
local actions = {}
actions["suspend"] = { ["disabled"] = suspended, ["displayName"] = "Suspend" }
actions["resume"] = { ["disabled"] = not suspended, ["displayName"] = "Resume" }
actions["reconcile"] = { ["disabled"] = suspended, ["displayName"] = "Reconcile now" }
return actions
