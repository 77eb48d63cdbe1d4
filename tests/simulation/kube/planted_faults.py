"""Faults of the operator: each is planted in a copy of the project, and a seed of the simulation must find it.

python -m tests.simulation.planted kube
"""

from tests.mutants.fault import Fault


def _fault(what: str, file: str, old: str, new: str) -> Fault:
    return Fault(what=what, file=f"reconciler/kube/{file}", old=old, new=new, tests=())


OPERATOR_FAULTS: tuple[Fault, ...] = (
    _fault(
        "a Lease of another holder is acquired at once",
        "leadership/election.py",
        "return self._clock.monotonic() - observed.since >= duration",
        "return self._clock.monotonic() - observed.since >= 0",
    ),
    _fault(
        "a renewed Lease counts for twice its duration",
        "leadership/election.py",
        "self._certain_until = began + self._election.deadline\n                return",
        "self._certain_until = began + 2 * self._election.duration\n                return",
    ),
    _fault(
        "a leader alters quotas although its Lease is not certain",
        "run/leader_store.py",
        "if not self._leads():",
        "if self._leads is None:",
    ),
    _fault(
        "an aborted reconciliation releases every deleted document",
        "records/finalizers.py",
        "if planned is None or pair in planned:",
        "if planned is not None and pair in planned:",
    ),
    _fault(
        "deleted documents are released at once",
        "records/finalizers.py",
        "if owner.document not in own_documents or pair in owned.orphaned:",
        "if owner.document in own_documents or pair in owned.orphaned:",
    ),
    _fault(
        "no document gets a finalizer",
        "run/cluster_reconciler.py",
        "if not needing or not tries_left:",
        "if True:",
    ),
    _fault(
        "a status refers to the newest spec, not to the compared one",
        "run/cluster_reconciler.py",
        "compared[document] = replace(eligibility, obj=eligibility.obj.as_compared(obj))",
        "compared[document] = replace(eligibility, obj=obj)",
    ),
    _fault(
        "a status is written whatever version the object has",
        "status/writer.py",
        '"uid": obj.uid, "resourceVersion": obj.version}\n        answer',
        '"uid": obj.uid}\n        answer',
    ),
    _fault(
        "an older event replaces a newer object",
        "watch/resource_cache.py",
        "return obj.uid in self._ended or (current is not None and obj.is_before(current))",
        "return obj.uid in self._ended",
    ),
    _fault(
        "a deleted object is restored by an older event",
        "watch/resource_cache.py",
        "            self._ended[uid] = None\n",
        "            pass\n",
    ),
    _fault(
        "intents are not written before the alterations are sent",
        "records/inventory.py",
        "self.owned = self.owned.with_changes(changes)\n        await self._save()",
        "self.owned = self.owned.with_changes(changes)\n        await asyncio.sleep(0)",
    ),
    _fault(
        "removals are forgotten when the process ends",
        "records/inventory.py",
        "            removals=self.removals.rows,",
        "            removals=(),",
    ),
    _fault(
        "a conflict of records overwrites another writer's update",
        "records/record_store.py",
        "            objects[name] = await api.replace(CONFIG_MAPS, namespace, name, dict(config_map))\n",
        "            present = await api.get(CONFIG_MAPS, namespace, name)\n"
        '            newest = {"resourceVersion": present["metadata"]["resourceVersion"]}\n'
        '            newest = {**config_map, "metadata": {**config_map["metadata"], **newest}}\n'
        "            objects[name] = await api.replace(CONFIG_MAPS, namespace, name, newest)\n",
    ),
    _fault(
        "a status is written again in every reconciliation",
        "status/comparison.py",
        "    return _bare(_without_foreign_conditions(before)) == _bare(after)",
        "    return False",
    ),
    _fault(
        "a document never says that it has not drifted",
        "status/client_quota.py",
        "        if not message and any(each.drifts or each.is_settling for _, each in statuses):",
        "        if not message:",
    ),
    _fault(
        "an unfinished reconciliation is not tried again",
        "run/cluster_reconciler.py",
        "            retry=bool(pending),\n",
        "",
    ),
    _fault(
        "a document without its cluster is released without a mark",
        "run/missing_clusters.py",
        "            failed = (await self._orphan(leaving)).failed\n",
        "            failed = {}\n",
    ),
    _fault(
        "a start treats the API server's memory as complete",
        "watch/resource_listing.py",
        "            if is_recorded():\n",
        "            if True:\n",
    ),
    _fault(
        "a Secret that is withdrawn keeps its session",
        "configuration/client_sessions.py",
        "            await self.forget(cluster.name)\n            raise\n        except KquotaError",
        "            pass\n        except KquotaError",
    ),
    _fault(
        "a rotated Secret is not used",
        "configuration/client_sessions.py",
        "if credentials.version != session.state.version:",
        "if credentials.version and not session.state.version:",
    ),
    _fault(
        "a document is judged by its state before its deletion",
        "api/custom_resources.py",
        "            self.deleted_at,\n            self.labels,",
        "            self.labels,",
    ),
)
