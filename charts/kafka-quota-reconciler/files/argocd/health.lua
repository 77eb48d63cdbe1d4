-- Health of a ClientQuota or a QuotaCluster for Argo CD, read off its conditions. The same words as kstatus, and Suspended.
local health = { status = "Progressing", message = "Waiting for the operator" }

if obj.status == nil or obj.status.observedGeneration == nil then
  return health
end
if obj.metadata.generation ~= nil and obj.status.observedGeneration < obj.metadata.generation then
  return health
end

local found = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  found[condition.type] = condition
end

local function holds(kind)
  return found[kind] ~= nil and found[kind].status == "True"
end

local function words(kind)
  local condition = found[kind]
  if condition == nil then
    return ""
  end
  if condition.message == nil or condition.message == "" then
    return condition.reason or ""
  end
  return (condition.reason or kind) .. ": " .. condition.message
end

if found.Ready ~= nil then
  health.message = words("Ready")
end
if holds("Paused") then
  health.status = "Suspended"
  health.message = words("Paused")
elseif holds("Stalled") then
  health.status = "Degraded"
elseif holds("Reconciling") then
  health.status = "Progressing"
elseif holds("Ready") then
  health.status = "Healthy"
  if holds("Drifted") then
    health.message = words("Drifted")
  end
end
return health
