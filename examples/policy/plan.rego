# Rules of your own over a plan: kquota plan --format json | conftest test --policy examples/policy -
#
# Bounds, protected entities, the largest change and the most removals are in kquota.yaml already
# (spec.guards), where the base revision decides them. Here is room for what no field can say.
package main

import rego.v1

# A slot of an entity is ["user", "alice"]; its name is null for the default.
slots(change) := {kind: name | some [kind, name] in change.entity}

place(change) := sprintf("%s:%d", [change.file, change.line]) if change.file != null

place(change) := "declared nowhere" if change.file == null

said(change, words) := sprintf("%s: %s %s %s", [place(change), change.text, change.key, words])

# A plan made from a part of the documents, or one that was not validated, is not approved.
deny contains "not every document was read" if not input.complete

deny contains "this plan was not validated: run it with --validate auto, broker or sandbox" if input.validation.source == "none"

# What kquota refuses is refused here, too, with its place.
deny contains sprintf("%s:%d: %s", [one.file, one.line, one.message]) if {
	some one in input.violations
	one.file != null
}

# Batch users may not be given more than a fifth of what a broker can send.
deny contains said(change, "is more than 200 MiB/s, which batch jobs may have") if {
	some change in input.changes
	startswith(slots(change).user, "batch-")
	change.key in {"producer_byte_rate", "consumer_byte_rate"}
	change.after > 200 * 1024 * 1024
}

# The removal of a last limit needs the platform team.
deny contains said(change, "leaves its clients without any limit") if {
	some change in input.changes
	change.effect.direction == "newly unlimited"
	not startswith(object.get(change.owner, "document", ""), "platform/")
}

warn contains said(change, "takes over a value that another writer set") if {
	some change in input.changes
	change.cause == "Takeover"
}

warn contains sprintf("%s %s can never apply after this plan", [one.text, one.key]) if {
	some one in input.impact.newShadows
}
