"""The entry point: version, help, misspelt commands, lazy imports."""

import os
import subprocess
import sys

from reconciler import __version__
from reconciler.base.installation import incomplete_installation
from reconciler.cli.main import main
from tests.servers.processes import without_coverage


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kquota {__version__}\n"


def test_the_version_needs_no_heavy_import_and_little_time():
    heavy = ("asyncio", "yaml", "ssl", "jsonschema", "socket", "json", "reconciler.quota")
    program = (
        "import sys; from reconciler.cli.main import main; main(['--version']);"
        f"sys.exit(','.join(m for m in {heavy!r} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=without_coverage(),
    )
    assert done.stderr.strip() == ""


def test_an_apply_loads_no_models_of_recorded_use():
    program = (
        "import sys, reconciler.cli.change.apply_output;"
        "sys.exit(','.join(m for m in sys.modules if m.startswith('reconciler.usage')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_no_arguments_is_a_usage_error_that_shows_the_help(capsys):
    assert main([]) == 1
    output, err = capsys.readouterr()
    assert output == ""
    assert "Commands:" in err


def test_a_misspelled_command_gets_a_suggestion(capsys):
    assert main(["aply"]) == 1
    assert "Did you mean apply?" in capsys.readouterr().err


def test_an_invalid_option_exits_1_because_2_means_changes(capsys):
    assert main(["completion", "bash", "--colour"]) == 1
    assert "kquota completion --help" in capsys.readouterr().err


def test_completion_scripts_complete_both_programs(capsys):
    assert main(["completion", "bash"]) == 0
    output = capsys.readouterr().out
    assert "_KQUOTA_COMPLETE=bash_complete" in output
    assert "_KAFKA_CLIENT_QUOTAS_COMPLETE=bash_complete" in output


def test_the_shell_receives_completions():
    variables = {"_KQUOTA_COMPLETE": "bash_complete", "COMP_WORDS": "kquota do", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "reconciler"],
        check=True,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "plain,doctor\n"


def test_a_reader_that_closes_early_causes_no_message():
    with subprocess.Popen(
        [sys.executable, "-m", "reconciler", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_missing_module_of_kquota_itself_is_a_bug():
    assert incomplete_installation(ModuleNotFoundError(name="reconciler.none")) is None
