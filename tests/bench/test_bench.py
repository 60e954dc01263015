"""The benchmark: what is measured, what is advised, and the report in a browser."""

import functools
import json
import re

import numpy as np
import pytest

import carom
from browsing import needs_chromium, opened
from carom import bench, models
from carom.bench.measure import measured, scale_of

TITLE = "P1 ball, e = 0.5"


@functools.cache
def ball():
    return bench.PROBLEMS[TITLE]()


def exact_motion(problem, n=400, **planted):
    t = np.linspace(problem.t0, problem.t1, n + 1)
    q, v = problem.exact(t)
    return bench.Motion(**{"t": t, "q": q, "v": v, "impact_times": problem.impact_times, **planted})


def test_the_exact_motion_has_no_error():
    problem = ball()
    found = measured(problem, exact_motion(problem, impulse=np.array([3.0])), np.array([3.0]))
    assert found.pop("penetration") < 1e-15
    assert found == dict.fromkeys(found, 0.0)


def test_planted_errors_are_measured():
    problem = ball()
    right = exact_motion(problem)
    span = problem.t1 - problem.t0
    wrong = exact_motion(
        problem,
        q=right.q + 0.25 * (np.arange(401) == 100)[:, None],
        v=right.v + 0.5,
        impulse=np.array([3.3]),
        impact_times=problem.impact_times
        + np.where(np.arange(len(problem.impact_times)) == 1, 1e-3, 0),
    )
    found = measured(problem, wrong, np.array([3.0]))
    assert found["q"] == pytest.approx(0.25)
    assert found["v"] == pytest.approx(0.5, rel=1e-2)
    assert found["impulse"] == pytest.approx(0.1)
    assert found["impact_time"] == pytest.approx(1e-3)
    T = np.sum((right.v + 0.5) ** 2 - right.v**2, axis=1) / 2
    assert found["energy"] == pytest.approx(
        np.sum(np.abs(T)) * span / 400 / span / np.max(right.v**2 / 2), rel=1e-2
    )
    sunk = measured(problem, exact_motion(problem, q=right.q - 0.1), None)
    assert sunk["penetration"] == pytest.approx(0.1)
    assert sunk["impulse"] is None


@pytest.mark.parametrize(
    ("planted", "text"),
    [
        ({"q": np.zeros((401, 2))}, "must be"),
        ({"v": np.full((401, 1), np.nan)}, "not finite"),
        ({"t": np.linspace(0, 1, 401)}, "from 0 to 1"),
    ],
)
def test_what_cannot_be_judged_is_refused(planted, text):
    with pytest.raises(carom.CaromError, match=text):
        measured(ball(), exact_motion(ball(), **planted), None)


def first_order(cost):
    """A method with the error 0.9/size in q, at a cost of its own."""

    def advance(problem, size):
        right = exact_motion(problem)
        return exact_motion(problem, q=right.q + 0.9 / size, wall=cost * size, cpu=cost * size)

    return advance


def outsider(name, cost, sizes=(10, 100, 1000, 10000)):
    return bench.Method(name=name, advance=first_order(cost), sizes=sizes, order=1.0)


def run(path=None, methods=None):
    return bench.run(
        [TITLE], methods or [outsider("slow", 1e-3), outsider("quick", 1e-4)], path=path
    )


def test_orders_and_advice_follow_from_the_numbers():
    results = run()
    assert [(o.method, round(o.q, 6)) for o in results.orders()] == [("slow", 1.0), ("quick", 1.0)]
    scale = scale_of(ball())
    need = next(size for size in (10, 100, 1000, 10000) if 0.9 / size <= 1e-2 * scale)
    assert results.best(TITLE, 1e-2) == pytest.approx({"quick": 1e-4 * need, "slow": 1e-3 * need})
    advice = results.recommendations()
    assert {a.kind for a in advice} == {"accumulating"}
    assert all(a.timed.methods == ("quick",) and a.timed.wins == 1 for a in advice)
    assert all(a.counted is None for a in advice)  # neither says how often it asks for the force
    assert not any(a.target == 1e-8 for a in advice)  # nobody gets there
    assert "accumulating impacts, error 1e-02: by CPU time quick in 1 of 1" in results.table()
    turned = run(methods=[outsider("slow", 1e-5), outsider("quick", 1e-4)])
    assert all(a.timed.methods == ("slow",) for a in turned.recommendations())


def test_ties_are_said():
    """Times within four times, counts within a quarter; both in the order of the alphabet."""
    near = run(methods=[outsider("z", 1e-4), outsider("a", 3.9e-4), outsider("far", 4.1e-4)])
    (advice, *_) = near.recommendations()
    assert advice.timed.methods == ("a", "z")
    assert "a = z in 1 of 1 (a tie: within 4 times)" in str(advice)
    counted = [
        {**row, "evaluations": row["size"] * {"z": 100, "a": 124, "far": 126}[row["method"]]}
        for row in near.rows
    ]
    (advice, *_) = bench.Results(counted).recommendations()
    assert advice.counted.methods == ("a", "z")


def test_noise_changes_no_verdict():
    """Times half as long again, or two thirds, at random."""
    random = np.random.default_rng(0)
    rows = [
        {**row, "fixed": 1e-3, "evaluations": round(1e6 * row["cpu"])}
        for row in run(methods=[outsider("a", 1e-6), outsider("b", 1.5e-6)]).rows
    ]
    said = set()
    for _ in range(50):
        noisy = [{**r, "work": r["cpu"] * random.uniform(2 / 3, 3 / 2)} for r in rows]
        said.add("\n".join(map(str, bench.Results(noisy).recommendations())))
    assert len(said) == 1
    assert "by evaluations a in 1 of 1; by CPU time a = b" in said.pop()


@pytest.mark.slow
def test_noise_in_the_fixed_cost_changes_no_verdict():
    """A fixed cost comes out up to three times as long, each by itself, beside other work."""
    random = np.random.default_rng(1)
    works = {"a": 1e-4, "b": 2e-3, "c": 20e-3, "d": 80e-3}  # [s] beyond a fixed cost of 2 ms
    said = set()
    for _ in range(50):
        rows = [
            {"problem": problem, "kind": "several", "method": method, "size": 1, "status": "ok",
             "q": 0.0, "scale": 1.0, "evaluations": 1, "work": work * random.uniform(1.0, 1.2),
             "cpu": work, "fixed": 2e-3 * random.uniform(1.0, 3.0)}
            for problem in "uvwxyz" for method, work in works.items()
        ]  # fmt: skip
        said |= {str(advice.timed) for advice in bench.Results(rows).recommendations()}
    assert said == {"a = b = c in 6 of 6 (a tie: within 4 times)"}


def test_nothing_is_said_of_what_was_not_run():
    dear = run(methods=[outsider("dear", 1e-2), outsider("quick", 1e-4)])
    fine = [a for a in dear.recommendations() if a.target == 1e-4]
    assert fine[0].unjudged == ("dear",)  # stopped by its budget before it could get there
    assert "not run far enough: dear" in str(fine[0])
    assert "Not run, so nothing is said of: Moreau" in dear.table()
    rows = dear.rows + [{**r, "problem": "other"} for r in dear.rows if r["method"] == "quick"]
    assert all("dear" in a.unjudged for a in bench.Results(rows).recommendations())


def test_results_from_elsewhere(tmp_path):
    """Shown, and compared by what does not depend on the machine."""
    other = tmp_path / "cluster.jsonl"
    run(other, [outsider("quick", 1e-9)])
    rows = [{**json.loads(x), "evaluations": 10} for x in other.read_text().splitlines()]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    both = run(methods=[outsider("quick", 1e-4)]).beside(other)
    assert both.methods == ["quick", "quick [cluster]"]
    (advice, *_) = both.recommendations()
    assert advice.timed.methods == ("quick",)
    assert advice.counted.methods == ("quick [cluster]",)


def test_the_fixed_cost_of_a_call_is_apart():
    def advance(problem, size):
        whole = 0
        for k in range(20_000 if problem.t1 < 1e-3 else 220_000):  # a tenth of it in any call
            whole += k
        return exact_motion(problem, q=exact_motion(problem).q + 0.9 / size)

    (row,) = run(methods=[bench.Method(name="python", advance=advance, sizes=(100,))]).rows
    assert 0.0 < row["fixed"] < row["cpu"]
    assert row["work"] == row["cpu"] - row["fixed"]


def test_a_run_goes_on_from_its_file(tmp_path):
    path, calls = tmp_path / "bench.jsonl", []

    def counted(problem, size):
        calls.append(size)
        return first_order(1e-3)(problem, size)

    method = bench.Method(name="counted", advance=counted, sizes=(10, 100), order=1.0)
    whole = run(path, [method])
    assert {row["size"] for row in whole.rows} == {10, 100}
    calls.clear()
    assert run(path, [method]).rows == whole.rows
    assert not calls
    text = path.read_text()
    path.write_text(text[: len(text) - 30])  # cut off in the middle of the last line
    again = run(path, [method])
    assert {row["size"] for row in again.rows} == {10, 100}
    assert set(calls) == {100}
    assert [json.loads(line) for line in path.read_text().splitlines()] == again.rows


def test_a_method_stops_at_its_budget_and_says_so(tmp_path):
    """The sizes behind the first run that is too dear are rows too, also when a run is resumed."""
    path = tmp_path / "bench.jsonl"
    dear = outsider("dear", 1e-2)  # 0.1, 1, 10 and 100 s by its own clock
    results = run(path, [dear])
    said = [row["status"].partition(" (")[0] for row in results.rows]
    assert said == ["ok", "ok", "ok", "stopped: over budget"]
    assert "took 10.0 s, beyond 5" in results.rows[-1]["status"]
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:3]))
    again = run(path, [dear])
    assert [row["status"] for row in again.rows] == [row["status"] for row in results.rows]


def test_the_tolerance_of_event_detection_shows():
    """Its records do not shorten its steps so much that every tolerance gives the same motion."""
    problem = models.impact_oscillator()
    method = bench.METHODS["EventDriven"]
    errors, steps = [], []
    for rtol in (1e-3, 1e-7, 1e-11):
        motion = method.advance(problem, rtol)
        errors.append(measured(problem, motion, None)["q"])
        steps.append(motion.steps)
    assert errors[0] > 10 * errors[1] > 100 * errors[2]  # gaps shorten steps too
    assert steps[0] < steps[1] < steps[2]


def test_a_method_that_fails_is_a_row():
    def advance(problem, size):
        raise ZeroDivisionError("no such luck")

    results = run(methods=[bench.Method(name="bad", advance=advance, sizes=(1,))])
    assert results.rows[0]["status"] == "ZeroDivisionError: no such luck"
    assert results.recommendations() == []


def test_a_misspelt_name():
    with pytest.raises(carom.CaromError, match="did you mean 'Moreau'"):
        bench.run([TITLE], ["Moraeu"])


def test_every_problem_has_a_kind():
    kinds = {title: bench.kind_of(bench.PROBLEMS[title]()) for title in bench.PROBLEMS}
    assert set(kinds.values()) == set(bench.KINDS)
    assert kinds["P6 lift-off"] == "lasting"
    assert kinds["P3 impact oscillator"] == "isolated"


def test_carom_itself_enters(tmp_path):
    """One real scheme, and the report of it."""
    problem = {"lift-off": lambda: models.lift_off()}
    moreau = bench.METHODS["Moreau"]
    few = bench.Method(**{**moreau.__dict__, "sizes": (1049, 2003, 4001)})
    results = bench.run(problem, [few])
    assert [row["status"] for row in results.rows] == ["ok"] * 3
    assert all(row["certified"] is not False for row in results.rows)
    assert results.orders()[0].q == pytest.approx(2.0, abs=0.1)
    assert results.rows[0]["impulse"] < 1e-2


@pytest.mark.slow
def test_the_bouncing_dimer_is_a_row():
    event, moreau = bench.METHODS["EventDriven"], bench.METHODS["Moreau"]
    methods = [
        bench.Method(**{**event.__dict__, "sizes": (1e-4, 1e-8)}),
        bench.Method(**{**moreau.__dict__, "sizes": (1049, 8009)}),
    ]
    rows = bench.run(["bouncing dimer"], methods).rows
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert {row["kind"] for row in rows} == {"rubbing"}
    rough, fine, few, many = (row["q"] for row in rows)
    assert fine < 1e-6 < 1e-3 * few
    assert rough > 100 * fine
    assert few > 4 * many


@needs_chromium
def test_the_report_in_a_browser(tmp_path):
    results = run()
    extra = [{**row, "problem": "P6 lift-off", "kind": "lasting"} for row in results.rows]
    results = bench.Results(results.rows + extra)
    page_file = tmp_path / "report.html"
    results.report(page_file)
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page_file.read_text())
    with opened(page_file, ["--no-sandbox"]) as page:
        for tab in ("advice", "diagrams", "orders", "runs"):
            page.click(f"nav button[data-tab={tab}]")
            assert [s.get_attribute("id") for s in page.query_selector_all("section.shown")] == [
                tab
            ]
            assert page.is_visible(f"#{tab} h2")
        page.click("nav button[data-tab=diagrams]")
        for k in range(2):
            (figure,) = page.query_selector_all("figure.shown")
            assert figure.get_attribute("data-problem") == str(k)
            box = figure.query_selector("svg").bounding_box()
            assert box["width"] > 300
            assert box["height"] > 150
            assert "slow" in figure.inner_html()
            page.click("#next")
        page.click("nav button[data-tab=runs]")
        page.fill("#filter", "quick")
        shown = [r for r in page.query_selector_all("#runs tbody tr") if r.is_visible()]
        assert len(shown) == len(results) // 2
        with page.expect_download() as download:
            page.click("#data")
        assert len(json.loads(download.value.path().read_text())) == len(results)
