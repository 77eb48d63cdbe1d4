"""kquota import: other tools' files become manifests; what cannot be converted is listed on standard error."""

from pathlib import Path

import pytest

from reconciler.manifest.foreign.tools import TOOLS
from reconciler.manifest.loader import load_files

GOLDEN = Path(__file__).parents[1] / "golden" / "foreign"
LINE = "Quota configs for user-principal 'billing' are producer_byte_rate=1.0E7\n"
ODD = (
    "Quota configs for user-principal 'a\x1b[2Jb' are leader_rate=1.0, producer_byte_rate=2048.0\n"
)
SAMPLES = {
    "kafka-configs": ("kafka-configs.txt", 12),
    "rpk": ("rpk.json", 3),
    "jikkou": ("jikkou.yaml", 6),
    "strimzi": ("strimzi.yaml", 3),
    "terraform": ("terraform.json", 2),
}
CHOSEN = {"strimzi": "blue"}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_sample_of_every_tool_becomes_manifests_and_losses_exit_1(kquota, tool):
    name, count = SAMPLES[tool]
    arguments = ["--cluster", "prod", "--namespace", "platform", str(GOLDEN / name)]
    if tool in CHOSEN:
        arguments += ["--source-cluster", CHOSEN[tool]]
    ran = kquota("import", "--from", tool, *arguments)
    assert (ran.code, "cannot be expressed" in ran.err) == (1, True)
    loaded = load_files([("out", ran.out)]).checked()
    assert len(loaded.of("prod")) == count
    assert {declaration.document.partition("/")[0] for declaration in loaded.of("prod")} == {
        "platform"
    }
    again = kquota("import", "--from", tool, *arguments, "--partial")
    assert (again.code, again.out) == (0, ran.out)
    assert "error:" not in again.err


def test_losses_are_listed_with_place_entity_and_limit_and_names_cannot_forge_a_line(
    kquota, folder
):
    (folder / "users.txt").write_text(LINE + ODD)
    ran = kquota("import", "--from", "kafka-configs", "--cluster", "prod", "users.txt")
    assert ran.err.splitlines() == [
        "error: 1 value cannot be expressed in manifests:",
        '  - users.txt:2: user="a\\u001b[2Jb" leader_rate=1.0: a quota key that manifests do not support',
        "hint: --partial imports without it",
    ]


def test_a_folder_gets_one_file_per_document_and_files_are_never_overwritten(kquota, folder):
    (folder / "users.txt").write_text(LINE)
    arguments = (
        "import",
        "--from",
        "kafka-configs",
        "--cluster",
        "prod",
        "--out-dir",
        "q/prod",
        "users.txt",
    )
    ran = kquota(*arguments)
    assert (ran.code, ran.out, ran.err) == (0, "", "1 document written to q/prod\n")
    written = folder / "q" / "prod" / "user.billing.yaml"
    assert "user: {name: billing}" in written.read_text()
    assert kquota(*arguments).code == 0
    (folder / "users.txt").write_text(
        LINE.replace("1.0E7", "2.0E7") + LINE.replace("billing", "new")
    )
    ran = kquota(*arguments)
    assert (ran.code, "user.billing.yaml exists with other content" in ran.err) == (1, True)
    assert "10M" in written.read_text()
    assert not (folder / "q" / "prod" / "user.new.yaml").exists()


def test_a_folder_that_cannot_be_created_is_an_error(kquota, folder):
    (folder / "users.txt").write_text(LINE)
    (folder / "file").write_text("")
    ran = kquota(
        "import", "--from", "kafka-configs", "--cluster", "prod", "--out-dir", "file/q", "users.txt"
    )
    assert ran.code == 1
    assert "file/q cannot be made" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "rpk", "--cluster", "prod", "none.json"], "none.json cannot be read"),
        (["--from", "akhq", "--cluster", "prod", "users.txt"], "akhq"),
        (["--from", "rpk", "--cluster", "prod"], "FILE"),
        (["--from", "rpk", "users.txt"], "--cluster"),
        (["--from", "rpk", "--cluster", "prod", "users.txt"], "users.txt:1:1"),
        (
            ["--from", "kafka-configs", "--cluster", "prod", "--source-cluster", "x", "users.txt"],
            "--source-cluster",
        ),
        (["--from", "kafka-configs", "--cluster", "prod", "latin.txt"], "UTF-8 text"),
    ],
)
def test_invalid_options_or_files_are_an_error_with_a_message(kquota, folder, arguments, words):
    (folder / "users.txt").write_text(LINE)
    (folder / "latin.txt").write_bytes(b"\xe9")
    ran = kquota("import", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err


def test_an_imported_quota_has_an_empty_plan_on_the_cluster_that_it_came_from(
    kquota, sandbox, folder
):
    sandbox.seed({(("user", "billing"),): {"producer_byte_rate": 1e7}})
    assert (
        kquota(
            "import",
            "--from",
            "kafka-configs",
            "--cluster",
            "prod",
            "--out-dir",
            "q",
            "-",
            stdin=LINE,
        ).code
        == 0
    )
    ran = kquota(
        "plan",
        "q",
        "--bootstrap-server",
        sandbox.bootstrap,
        "--cluster",
        "prod",
        "--detailed-exitcode",
    )
    assert ran.code == 0, ran.out
