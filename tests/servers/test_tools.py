"""Tests of Java programs: compiled once, and run or queried."""

from pathlib import Path

import pytest

from tests.servers import tools
from tests.servers.tools import Conversation, JavaFailed, JavaSource

pytestmark = pytest.mark.integration

VERSION = "4.3.1"
ECHO = """
import java.util.Scanner;
import org.apache.kafka.common.utils.AppInfoParser;

public final class Echo {
    public static void main(String[] arguments) {
        System.err.println("started");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            if (line.contains("end")) {
                System.exit(3);
            }
            if (line.contains("fail")) {
                System.out.println("{\\"failure\\": \\"as wished\\"}");
                continue;
            }
            System.out.println("{\\"version\\": \\"" + AppInfoParser.getVersion() + "\\", \\"asked\\": "
                + line + "}");
        }
    }
}
"""


@pytest.fixture
def echo(tmp_path: Path) -> JavaSource:
    path = tmp_path / "Echo.java"
    path.write_text(ECHO, encoding="utf-8")
    return JavaSource(path=path, class_name="Echo")


def test_a_program_runs_against_the_jars_of_its_version(echo: JavaSource) -> None:
    answer = tools.java_program(VERSION, echo.path, echo.class_name, stdin="1\n")
    assert answer.stdout == f'{{"version": "{VERSION}", "asked": 1}}\n'
    assert tools.compile_jar(VERSION, echo) == tools.compile_jar(VERSION, echo)
    assert tools.java_program(VERSION, echo.path, "Echo", stdin="end\n").returncode == 3


def test_an_error_of_javac_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "Broken.java"
    path.write_text("class Broken { int x = ; }", encoding="utf-8")
    with pytest.raises(JavaFailed, match="illegal start of expression"):
        tools.compile_jar(VERSION, JavaSource(path=path, class_name="Broken"))


def test_a_conversation_answers_until_its_program_ends(echo: JavaSource) -> None:
    with Conversation(VERSION, echo) as talk:
        for number in range(3):
            assert talk.ask({"number": number})["asked"] == {"number": number}
        with pytest.raises(JavaFailed, match="as wished"):
            talk.ask({"fail": True})
        with pytest.raises(JavaFailed, match="the Java program ended:\nstarted"):
            talk.ask({"end": True})
        with pytest.raises(JavaFailed, match="the Java program ended"):
            talk.ask({"number": 4})
