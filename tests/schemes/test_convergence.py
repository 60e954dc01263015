"""Each scheme converges as declared, on every problem with a known answer."""

import numpy as np
import pytest

from convergence import EXACT, PAGE, SCHEMES, cases, orders, row, with_table

CASES = cases()

# Every row is run by `make test-all`; these, which cover each kind of motion once, by `make test`.
QUICK = (
    "P1 ball, e = 0.5",
    "P5 in a disc, e = 0.5",
    "P6 lift-off",
    "P8 vibrating table, e = 0.5",
    "P9 row, touching",
)


def _rows():
    return [t if t in QUICK else pytest.param(t, marks=pytest.mark.slow) for t in CASES]


def documented():
    """(problem, scheme) -> declared, sup q and L1 v of docs/orders.md, as they stand there."""
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| P")]
    return {(row[1].strip(), row[2].strip()): [c.strip() for c in row[3:6]] for row in rows}


DOCUMENTED = documented()


def test_the_page_of_orders_has_every_row():
    table = {
        (title, name): str(case.order[name]) for title, case in CASES.items() for name in SCHEMES
    }
    assert {key: row[0] for key, row in DOCUMENTED.items()} == table


def test_writing_the_page_again_leaves_it_as_it_is():
    page = PAGE.read_text()
    lines = [line for line in page.splitlines() if line.startswith("| P")]
    assert with_table(page, lines) == page
    assert with_table(page, lines[1:]) != page


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("title", _rows())
def test_order(title, name):
    case = CASES[title]
    found, declared = orders(case, SCHEMES[name]), case.order[name]
    stated, page_q, page_v = DOCUMENTED[title, name]
    line = [cell.strip() for cell in row(title, name, case, found).split("|")]
    assert line[1:4] == [title, name, stated]
    assert [bool(cell) for cell in line[4:6]] == [bool(page_q), bool(page_v)]
    assert not page_q or abs(found.q - float(page_q)) < 0.02
    assert not page_v or abs(found.v - float(page_v)) < 0.02
    if declared == EXACT:
        # rounding: one unit a step, at the size of the motion
        assert np.all(found.q_errors < 1e-15 * found.steps)
    else:
        assert abs(found.q - declared) < 0.15
        assert found.q_errors[-1] < 0.2 * found.q_errors[0]
    if found.v_errors[0] > 1e-9:
        assert abs(found.v - 1) < 0.15
