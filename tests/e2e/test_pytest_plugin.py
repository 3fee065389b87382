"""The pytest plugin, in projects of its own that a pytest of their own runs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = "pytester"
ROOT = Path(__file__).parents[2]
SMALL = 'workload="queue", nemesis=["kill", "partition"], time_limit="3s", env="simulated"'
CAUGHT = 'mutant="ack_without_replicas", seed=1'


def test_a_valid_run_passes_and_leaves_its_folder_in_tmp(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""
        def test_it(maxq, tmp_path_factory):
            outcome = maxq.run({SMALL}, seed=3)
            assert outcome
            assert outcome.valid is True
            assert outcome.run.is_relative_to(tmp_path_factory.getbasetemp())
            assert (outcome.run / "results.json").exists()
            assert outcome.report == outcome.run / "report.html"
            assert outcome.claims["S6"] == "kept"
            assert "--seed 3" in outcome.repeat
            assert maxq.runs == [outcome]
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_violation_fails_and_tells_its_story(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""
        def test_it(maxq):
            assert maxq.run({SMALL.replace("3s", "30s")}, {CAUGHT})
    """)
    result = pytester.runpytest_subprocess("--show-capture=no")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *assert <maxq INVALID>",
            "*- maxq -*",
            "verdict: INVALID: * acknowledged messages (* %) were lost (S6).*",
            "  * acknowledged message* lost; of *; acknowledged by b0-*, master of b0 in *; *",
            "page: */queue/*/report.html",
            "repeat:  */maxq test --env simulated * --seed 1 --mutant ack_without_replicas",
        ]
    )
    section = result.stdout.str().partition(" maxq ---")[2].partition("=== ")[0]
    assert len(section.strip().splitlines()) <= 8
    assert section.count("acknowledged messages (") == 1


def test_a_test_can_demand_that_a_bug_is_caught(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""
        def test_it(maxq):
            outcome = maxq.run({SMALL.replace("3s", "30s")}, {CAUGHT})
            assert not outcome
            assert outcome.found["S6 lost-write"] > 0
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    assert "lost-write" not in result.stdout.str()


def test_unknown_is_a_failure_unless_it_is_allowed(pytester: pytest.Pytester) -> None:
    """Of a run that a checker says proves nothing: every short run is decided by now."""
    short = 'workload="queue", nemesis="none", time_limit="1ms", env="simulated"'
    pytester.makepyfile(f"""
        import pytest
        from maxq.checkers.core.api import Verdict
        from maxq.harness.run import judging

        class Doubter:
            name, claims = "doubter", ()

            def check(self, history, context):
                return Verdict(checker=self.name, gate="nobody looked")

        @pytest.fixture(autouse=True)
        def doubter(monkeypatch):
            monkeypatch.setattr(judging, "ALWAYS", (*judging.ALWAYS, Doubter()))

        def test_unknown(maxq):
            assert maxq.run({short}, seed=1)

        def test_allowed(maxq):
            assert maxq.run({short}, seed=1, allow_unknown=True).valid == "unknown"
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "verdict: unknown: nobody looked.",
            "what is not judged fails a test; allow_unknown=True passes it",
        ]
    )


def test_wrong_arguments_name_the_nearest_and_run_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("given, kind, told", [
            ({"nemesis": ["kill", "change-adress"]}, ValueError, "did you mean change-address"),
            ({"workload": "queues"}, ValueError, "did you mean queue"),
            ({"env": "simulate"}, ValueError, "did you mean simulated"),
            ({"profile": "saef"}, ValueError, "did you mean safe"),
            ({"mutant": "ack_before_writ"}, ValueError, "did you mean ack_before_write"),
            ({"nemsis": "kill"}, TypeError, "did you mean nemesis"),
            ({"time_limit": "20 s"}, ValueError, "write it as 500ms"),
            ({"replicas": 1}, ValueError, "needs --replicas 2"),
            ({"nemesis": []}, ValueError, "names nothing"),
            ({"nemesis": 7}, ValueError, "not 7"),
            ({"seed": -1}, ValueError, "-1"),
        ])
        def test_it(maxq, given, kind, told, tmp_path):
            with pytest.raises(kind, match=told):
                maxq.run(**{"env": "simulated", "store": tmp_path, **given})
            assert list(tmp_path.iterdir()) == []

        def test_inside_a_loop(maxq):
            import asyncio

            async def inside():
                maxq.run(env="simulated")

            with pytest.raises(RuntimeError, match="no coroutine"):
                asyncio.run(inside())
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=12)


def test_options_and_the_ini_file_say_what_arguments_do_not(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmaxq_env = simulated\nmaxq_seed = 5\nmaxq_store = stored\n")
    pytester.makepyfile("""
        def test_it(maxq):
            maxq.run("queue", "kill", "1s")
            print(maxq.runs[0].repeat)
            maxq.run("queue", "kill", "1s", seed=9)
            print(maxq.runs[1].repeat)
    """)
    first = pytester.runpytest_subprocess("-s")
    first.stdout.fnmatch_lines(["*--env simulated*--seed 5", "*--seed 9"])
    assert len(list((pytester.path / "stored" / "queue").glob("2*"))) == 2
    second = pytester.runpytest_subprocess("-s", "--maxq-seed", "6", "--maxq-store", "other")
    second.stdout.fnmatch_lines(["*--seed 6", "*--seed 9"])
    assert len(list((pytester.path / "other" / "queue").glob("2*"))) == 2


def test_auto_takes_what_can_do_it_and_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an engine and without `unshare`."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{pytester.path}/none")
    monkeypatch.setenv("PATH", str(pytester.path))
    pytester.makepyfile("""
        import pytest
        from maxq.harness.contracts.environment import EnvironmentUnavailable

        def test_it(maxq, capsys):
            outcome = maxq.run(workload="queue", nemesis="kill", time_limit="3s", seed=3)
            assert outcome
            assert "--env simulated" in outcome.repeat
            docker, local, chosen = capsys.readouterr().err.splitlines()
            assert docker.startswith("docker: no engine answers at ")
            assert local == "local: unshare is missing; apt-get install util-linux"
            assert chosen.startswith("environment: simulated (chosen by auto: ")

        def test_none(maxq):
            with pytest.raises(EnvironmentUnavailable, match="simulated: it runs reference nodes"):
                maxq.run(target="rocketmq:5.5.0")
            assert not maxq.runs
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_workers_share_a_store_without_meeting(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(maxq, number):
            assert maxq.run({SMALL.replace("3s", "1s")}, allow_unknown=True)
    """)
    result = pytester.runpytest_subprocess("--numprocesses", "2", "--maxq-store", "shared")
    result.assert_outcomes(passed=6)
    folders = list((pytester.path / "shared" / "queue").glob("2*"))
    assert len(folders) == 6
    assert all((folder / "results.edn").exists() for folder in folders)


def test_a_project_that_does_not_use_it_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings=error")
    pytester.makepyfile("""
        import sys

        import pytest

        @pytest.fixture
        def maxq():
            return "theirs"

        def test_it(maxq):
            assert maxq == "theirs"
            assert "maxq.harness.run.stored_run" not in sys.modules
            assert "pyarrow" not in sys.modules
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_project_may_have_a_harness_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.mkpydir("tests")
    (pytester.path / "tests" / "__init__.py").unlink()
    (pytester.path / "tests" / "harness.py").write_text("THEIRS = True\n")
    (pytester.path / "tests" / "test_theirs.py").write_text(
        "import harness\nimport pytest\n\n"
        "def test_it():\n    assert harness.THEIRS\n\n"
        "def test_beside_it(maxq):\n"
        "    with pytest.raises(ValueError, match='is unknown; known: queue'):\n"
        "        maxq.run(workload='nothing')\n"
    )
    pytester.runpytest_subprocess("tests").assert_outcomes(passed=2)


def test_importing_the_plugin_imports_nothing_else_of_ours() -> None:
    told = subprocess.check_output(
        [sys.executable, "-c", "import sys, pytest; before = set(sys.modules); "
         "import maxq.harness.python_api.pytest_plugin; print(*sorted(set(sys.modules) - before))"],
        text=True,
    )  # fmt: skip
    plugin = "maxq.harness.python_api.pytest_plugin"
    parts = plugin.split(".")
    assert told.split() == [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
