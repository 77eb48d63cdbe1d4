"""Records name the project that wrote them; those of another project are refused, unless this run takes them over."""

from collections.abc import Sequence

from reconciler.errors import PlanRefused
from reconciler.ports import Inventory
from reconciler.quota.ownership import OwnershipRecords, ProjectNamed, RecordChange


class ProjectInventory:
    """The records of one project. Implements ``ports.Inventory``.

    Args:
        inventory: Where they are stored.
        project: The project whose documents are applied; its name is written with the first change.
        location: The file or ref, for the error.
        takes_over: Whether records of another project become records of this one (``--take-over``).
    """

    def __init__(
        self, inventory: Inventory, project: str, *, location: str, takes_over: bool = False
    ) -> None:
        self._inventory = inventory
        self._project = project
        self._location = location
        self._takes_over = takes_over
        self._names: dict[str, str] = {}  # by cluster, the name in its records

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster.

        Raises:
            PlanRefused: They are those of another project.
            InventoryError: They cannot be read, or another process is writing them.
        """
        owned = await self._inventory.load(cluster_id)
        if owned.project not in {"", self._project} and not self._takes_over:
            raise PlanRefused(
                f"the records of cluster {cluster_id} in {self._location} are those of project {owned.project!r}, not of"
                f" {self._project!r}",
                hint="give each project records of its own (spec.inventory of the project file); if this project was renamed,"
                " or replaces the other one: kquota apply --take-over",
            )
        self._names[cluster_id] = owned.project
        return owned

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes, and name the project with the first one; records that are taken over need none.

        Raises:
            InventoryError: They cannot be written.
        """
        is_named = self._names.get(cluster_id) == self._project
        if (changes or self._takes_over) and not is_named:
            changes = (ProjectNamed(project=self._project), *changes)
        await self._inventory.write(cluster_id, changes)
        if changes:
            self._names[cluster_id] = self._project
