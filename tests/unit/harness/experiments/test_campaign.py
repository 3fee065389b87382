"""Campaigns: what a file means, what is refused, resuming after a kill, what JUnit is told."""

import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from waiting import eventually, line_count

from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.campaign import (
    JUNIT,
    NOTHING_LEFT,
    Campaign,
    CampaignError,
    Cell,
    jobs_of,
    perform_job,
    read_campaign,
)
from maxq.harness.experiments.campaign_cases import VALID, Job, junit
from maxq.harness.experiments.engine import JOURNAL

QUICK = '''
env = "simulated"
workload = "queue"
nemesis = "kill"
time_limit = "5s"
'''  # fmt: skip


def written(folder: Path, text: str) -> Path:
    path = folder / "campaign.toml"
    path.write_text(text)
    return path


def test_a_cell_is_every_combination_of_its_choices(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        name = "c"
        [[cell]]
        env = ["docker", "local"]
        nemesis = ["kill", "kill,pause"]
        seeds = [7, 9]
        options = ["--rate", "10"]
        [[cell]]
        mutant = "lock_without_quorum"
        expect = "invalid L1 L2"
        """,
    )
    jobs = jobs_of(read_campaign(path))
    assert len(jobs) == 2 * 2 * 2 + 1
    assert len({job.name for job in jobs}) == len(jobs)
    assert [job.seed for job in jobs] == [7, 9] * 4 + [1]
    first, last = jobs[0], jobs[-1]
    assert first.words[:2] == ("--env", "docker")
    assert first.words[-2:] == ("--rate", "10")
    assert "--mutant" not in first.words
    assert last.words[last.words.index("--mutant") + 1] == "lock_without_quorum"
    assert last.expect == "invalid L1 L2"


def test_campaigns_that_come_with_maxq_are_sound() -> None:
    jobs = jobs_of(read_campaign(Path("acceptance")))
    assert len(jobs) == 2 + 4 * 3 + 1 + 40
    assert len(jobs_of(read_campaign(Path("nightly")))) > 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "Invalid value"),
        ('name = "c"', "missing required field `cell`"),
        ('name = "c"\n[[cell]]\nenvs = ["local"]', "unknown field `envs`"),
        ('name = "c"\n[[cell]]\nseeds = "many"', "seeds"),
        ('name = "c"\ncell = 5', "Expected `array`, got `int` - at `$.cell`"),
        ('name = "c"\ncell = [5]', "Expected `object`, got `int` - at `$.cell[0]`"),
        ('name = "c"\ncell = []', "length >= 1"),
        ('name = "c"\n[[cell]]\nseeds = 0', "Expected `int` >= 1 - at `$.cell[0].seeds`"),
        ('name = "c"\n[[cell]]\nseeds = []', "length >= 1 - at `$.cell[0].seeds`"),
        ('name = "c"\n[[cell]]\nseeds = [-1]', "`$.cell[0].seeds[0]`"),
        ('name = "c"\n[[cell]]\nenv = []', "length >= 1 - at `$.cell[0].env`"),
        ('name = "c"\n[[cell]]\nseeds = 50_000_000', "Expected `int` <= 100000"),
        ('name = "c"\n[[cell]]\nseeds = 60_000\nenv = ["docker", "local"]', "120,000 runs, more"),
        pytest.param(f"cell = {'9' * 100_000}", "Exceeds the limit", id="digits"),
        pytest.param("a = " + "[" * 100_000, "recursion", id="depth"),
        ('name = "../c"\n[[cell]]', "matching regex"),
        ('name = ".."\n[[cell]]', "matching regex"),
        ('name = "/c"\n[[cell]]', "matching regex"),
        ('name = ""\n[[cell]]', "matching regex"),
        ('name = "c\\n"\n[[cell]]', "matching regex"),
        ('name = "c"\n[[cell]]\nexpect = "good"', "known: valid, invalid CLAIM, nothing left"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(CampaignError) as caught:
        read_campaign(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_byte_that_is_no_text_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_bytes(b'name = "c"\n# \xff\n[[cell]]\n')
    with pytest.raises(CampaignError, match=r"campaign\.toml: line 2: not UTF-8"):
        read_campaign(path)


def test_a_wrong_file_is_a_usage_error_and_makes_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 'name = "../c"\n[[cell]]\n')
    assert run_cli(["campaign", str(path), "--store", str(tmp_path / "runs")]) == 254
    assert "$.name" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_the_page_has_every_field_and_its_example_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "campaigns.md").read_text()
    for kind, of in ((Campaign, "file"), (Cell, "cell")):
        for field in msgspec.structs.fields(kind):
            assert f"| `{field.name}` | {of} |" in page
    example = tmp_path / "example.toml"
    example.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert len(jobs_of(read_campaign(example))) == 12 + 4 + 1
    assert {expect for expect in (VALID, NOTHING_LEFT) if f"`{expect}`" in page} == {
        VALID, NOTHING_LEFT,
    }  # fmt: skip


def test_an_unknown_campaign_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["campaign", "acceptanc"]) == 254
    assert "there are: acceptance, nightly" in capsys.readouterr().err


def test_what_is_not_as_expected_is_told(tmp_path: Path) -> None:
    words = ("--env", "simulated", "--workload", "queue", "--nemesis", "none", "--time-limit", "3s")
    fine = perform_job(Job(name="a", words=words, seed=1, expect="valid"), tmp_path)
    assert (fine.passed, fine.exit_code, Path(fine.run).is_dir()) == (True, 0, True)
    missed = perform_job(Job(name="b", words=words, seed=1, expect="invalid S6"), tmp_path)
    assert (missed.passed, missed.exit_code) == (False, 0)
    assert "accused: []" in missed.why
    wrong = perform_job(Job(name="c", words=("--nemesis", "kil"), seed=1, expect="valid"), tmp_path)
    assert (wrong.passed, wrong.exit_code) == (False, 254)
    assert "did you mean kill?" in wrong.why


def test_auto_falls_back_in_a_campaign_too_and_it_says_where_a_run_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setenv("PATH", str(tmp_path))  # no unshare
    cell = 'name = "c"\n[[cell]]\nworkload = "queue"\nnemesis = "kill"\ntime_limit = "3s"\n'
    (job,) = jobs_of(read_campaign(written(tmp_path, cell)))
    assert job.words[:2] == ("--env", "auto")
    done = perform_job(job, tmp_path)
    assert (done.passed, done.exit_code) == (True, 0), done.why
    assert done.repeat.startswith("maxq test --env simulated ")
    assert done.repeat in junit("c", [job], {job.name: done}).decode()
    release = Job(name="r", words=("--target", "rocketmq:5.5.0"), seed=1, expect="valid")
    refused = perform_job(release, tmp_path)
    assert (refused.passed, refused.exit_code) == (False, 255)
    assert "simulated: it runs reference nodes only" in refused.why


def test_a_harness_killed_at_any_moment_leaves_what_can_be_judged(tmp_path: Path) -> None:
    words = ("--env", "simulated", "--workload", "queue", "--time-limit", "1h")
    done = perform_job(Job(name="k", words=words, seed=5, expect="nothing left"), tmp_path)
    assert (done.passed, done.exit_code in (0, 1, 2)) == (True, True), done.why


def test_a_campaign_killed_half_way_goes_on_where_it_was(tmp_path: Path) -> None:
    """Five cells, kill -9 after the second; the second attempt runs the other three."""
    cells = "".join(f"[[cell]]\n{QUICK}\nseeds = [{seed}]\n" for seed in range(1, 6))
    path = written(tmp_path, f'name = "five"\n{cells}')
    command = [
        sys.executable,
        "-m",
        "maxq.harness.cli.main",
        "campaign",
        str(path),
        "--store",
        str(tmp_path),
    ]
    folder = tmp_path / "campaigns" / "five"
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert eventually(lambda: line_count(folder / JOURNAL) >= 2, 60)
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    before = line_count(folder / JOURNAL)
    assert 2 <= before < 5
    second = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("done before: ") == before
    assert "5 of 5 passed" in second.stdout
    suite = ElementTree.parse(folder / JUNIT).getroot()
    assert [suite.get(k) for k in ("tests", "failures", "skipped")] == ["5", "0", "0"]
    assert len(list((folder / "runs" / "queue").glob("2*"))) >= 5
