"""docs/policy.md against the guards: every guard has a row, a default and a flag."""

import re
from pathlib import Path

from reconciler.cli.options.plan import plan_options
from reconciler.manifest.project.file import parse
from reconciler.quota.planner.guards import ALLOWED_WITH, Guard, Guards, NewlyUnlimited

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("| guard | refuses")[2].splitlines()[2:]
    if line.startswith("|")
]
VERSION = "apiVersion: kafka-quotas.io/v1alpha1\n"


def example() -> Guards:
    """The guards of the page's example."""
    text = PAGE.partition("```yaml\n")[2].partition("```")[0]
    text = text.replace(
        "kind: QuotaCluster\nspec:\n",
        "kind: QuotaCluster\nmetadata: {name: prod}\nspec:\n  bootstrapServers: a:1\n",
    )
    documents = [VERSION + document for document in text.split("---\n")]
    return parse("---\n".join(documents)).clusters[0].cluster.guards


def test_every_guard_has_a_row():
    named = [name for row in ROWS for name in re.findall(r"`([\w.]+)`", row[0])]
    assert sorted(named) == sorted(map(str, Guard))


def test_each_row_names_exactly_the_flags_of_its_guard():
    for row in ROWS:
        guards = [Guard(name) for name in re.findall(r"`([\w.]+)`", row[0])]
        flags = {
            flag for guard in guards for flag in re.findall(r"--[\w-]+", ALLOWED_WITH[guard][1])
        }
        assert set(re.findall(r"--[\w-]+", row[2])) == flags


def test_the_flags_exist():
    flags = {
        flag for _, option in ALLOWED_WITH.values() for flag in re.findall(r"--[\w-]+", option)
    }
    command = plan_options(lambda **_: None)
    options = {name for option in command.__click_params__ for name in option.opts}
    assert flags <= options


def test_the_numbers_of_the_example_are_the_defaults():
    written, usual = example(), Guards()
    for name in (
        "max_removals",
        "max_removed_percent",
        "max_change_factor",
        "protect_defaults",
    ):
        assert getattr(written, name) == getattr(usual, name)
    assert usual.newly_unlimited is NewlyUnlimited.LIST
    assert (usual.bounds, usual.protected) == ((), ())


def test_of_two_ranges_of_the_example_only_the_one_with_two_near_ends_approves():
    approving = [bound for bound in example().bounds if bound.approves(200 * 1024**2)]
    assert [bound.entities.user.exact for bound in approving if bound.entities.user] == [
        "etl-nightly"
    ]
