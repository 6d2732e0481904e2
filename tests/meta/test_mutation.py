"""The mutation gate: which bugs it plants, and which tests it finds for a place."""

import importlib.util
import json
import pathlib
import sys
import textwrap
import types

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "mutation"


@pytest.fixture(scope="module")
def gate():
    """tests/mutation/__main__.py, whose modules name each other."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("mutation_gate", FOLDER / "__main__.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))


SOURCE = textwrap.dedent('''
    LIMIT = 3

    class Table:
        def __repr__(self):
            return "x" if self.n < 3 else "y"

        @property
        def full(self):
            """Whether n < 3."""
            if self.n < 0:
                raise ValueError(f"table: {self.n + 1}")
            if self.n > 9:
                raise AssertionError("nobody makes such a table")
            key = (self.n, "a")
            return max(self.n, 2) == self.rows[
                key
            ]
    ''')


def test_bugs_by_rule(gate):
    found = gate.mutants("x.py", SOURCE)
    told = {(bug.rule, bug.before, bug.text) for bug in found}
    assert ("comparison", "self.n < 0", "self.n <= 0") in told
    assert ("off by one", "2", "3") in told
    assert ("missing key member", '(self.n, "a")', '("a",)') in told
    raised = 'if self.n < 0:\n            raise ValueError(f"table: {self.n + 1}")'
    assert ("dropped check", raised, "pass") in told
    # outside of functions, in texts, in what is printed, of what nobody reaches, of equal arguments
    assert not [bug for bug in found if "LIMIT" in bug.before or "repr" in bug.function]
    assert not [t for t in told if "n + 1" in t[1] and t[0] == "operands"]
    assert not [t for t in told if t[0] == "dropped check" and "nobody" in t[1]]
    assert not [t for t in told if t[1].startswith("max(") and t[0] == "operands"]
    (last,) = [bug for bug in found if bug.text == "3"]
    assert last.function == "Table.full" and last.first == 8 and last.lines == (16, 18)
    for bug in found:
        compile(bug.applied(SOURCE), "x.py", "exec")


def test_bugs_of_the_package_are_python(gate):
    """Every bug of a file leaves it a program, and another one."""
    for path in ("cudamath/ops/scan.py", "cudamath/kernels/sort/radix_sort.py"):
        source = (gate.ROOT / path).read_text(encoding="utf-8")
        found = gate.mutants(path, source)
        assert len(found) > 50
        for bug in found[::7]:
            text = bug.applied(source)
            assert text != source
            compile(text, path, "exec")


def test_likely_tests_are_of_the_folder_that_mirrors(gate):
    """Each folder of the package whose name a folder of tests has: its files' likeliest tests
    are there."""
    for path, folder in {
        "sparse/bsr.py": "sparse",
        "distributed/parallel.py": "distributed",
        "runtime/communication/nccl.py": "distributed",
        "batching/sampling.py": "batching",
        "programs/simplify.py": "programs",
        "special/definition.py": "special",
        "core/specs/special/integrals.py": "special",
        "data.py": "ml/test_data.py",
        "core/tracing.py": "programs",
        "programs/slices.py": "programs/test_slices.py",
    }.items():
        assert gate.tests_of(f"cudamath/{path}")[0].startswith(f"tests/{folder}"), path


def test_time_for_tests_without_bugs(gate):
    """What was asked for, or a part of the time that there is."""
    assert gate.seconds_of_observation(gate.options_of(["--observe", "9"]), 500) == 9
    options = gate.options_of(["--seconds", "600"])
    few, many = (gate.seconds_of_observation(options, bugs) for bugs in (3, 500))
    assert 100 < few < many < 400
    assert gate.seconds_of_observation(gate.options_of([]), 500) == float("inf")


@pytest.mark.slow
def test_a_sample_tells_a_lot(gate):
    """Of every folder some, of a statement one, and the same for a seed."""
    bugs = gate.sample(60, 3, None)
    assert bugs == gate.sample(60, 3, None) != gate.sample(60, 4, None)
    statements = [(bug.path, bug.lines) for bug in bugs]
    assert len(set(statements)) == len(statements)
    folders = {gate.folder_of(bug.path) for bug in bugs}
    assert {"ops", "kernels", "core", "ml", "cpu", "runtime", "(top)"} <= folders
    assert not [bug for bug in bugs if "demo" in bug.path or "simulator.py" in bug.path]
    assert {gate.folder_of(bug.path) for bug in gate.sample(9, 3, ["ops"])} == {"ops"}


def test_tests_that_execute_a_place(gate, tmp_path, monkeypatch):
    """The statement's before the function's, and these before the file's; of each test one case
    before a second; none for long."""
    bug = next(b for b in gate.mutants("x.py", SOURCE) if b.text == "3")
    places = gate.Places([bug])
    statement, function, file = places.of(bug)
    monkeypatch.setattr(gate, "tests_of", lambda path: ["tests/b.py"])

    def test(name, seconds, *hit):
        return gate.Test(name, seconds, frozenset(hit), "cpu")

    near = [
        test("tests/a.py::one", 0.1, file, function, statement),
        test("tests/b.py::two[1]", 0.2, file, function, statement),
        test("tests/b.py::two[2]", 0.3, file, function, statement),
        test("tests/b.py::long", 1000, file, function, statement),
    ]
    far = [test("tests/c.py::far", 0.1, file, function), test("tests/c.py::farther", 0.1, file)]
    chosen = gate.chosen_tests(bug, places, [*far, *near], "cpu")
    names = [t.name.partition("::")[2] for t in chosen]
    assert names == ["two[1]", "one", "two[2]"]
    assert [t.name for t in gate.chosen_tests(bug, places, far, "cpu")] == ["tests/c.py::far"]
    assert gate.chosen_tests(bug, places, far, "simulator") == []
    assert gate.spread([1, 2, 3, 4, 5]) == [1, 5, 3, 2, 4]


@pytest.mark.parametrize(
    "path, unseen, kinds",
    [
        ("ops/sort.py", [], []),
        ("ops/sort.py", ["cpu", "simulator", "gpu"], ["cpu"]),
        ("kernels/sort/bitonic.py", ["simulator", "gpu"], ["simulator", "gpu"]),
    ],
)
def test_tests_that_nobody_observed_are_chosen_by_name(gate, path, unseen, kinds):
    """Files of them, after those that were observed; in the simulator and on GPUs of kernels. And
    where no test was seen to execute the statement."""
    path = f"cudamath/{path}"
    bug = gate.mutants(path, (FOLDER.parents[1] / path).read_text())[0]
    places = gate.Places([bug])
    seen = gate.Test("tests/a.py::one", 0.1, frozenset(places.of(bug)), "cpu")
    first, *later = gate.runs_of(bug, places, [seen], unseen)
    assert first[:2] == ([seen.name], "cpu") and [kind for _, kind, _ in later] == kinds
    files = gate.tests_of(path)[: gate.FEW_FILES]
    assert all(tests == files and not any("::" in test for test in tests) for tests, *_ in later)
    farther = seen._replace(places=frozenset(places.of(bug)[1:]))
    of_the_function = gate.runs_of(bug, places, [farther], [])[1:]
    assert [kind for _, kind, _ in of_the_function] == ["cpu"] * ("kernels" not in path)


def test_cases_on_a_gpu_that_are_to_the_point(gate, tmp_path):
    """What names the function, the file, and the conditions around the bug comes first."""
    import covering
    import observer

    path = "cudamath/kernels/attention/backward_sm90.py"
    source = (gate.ROOT / path).read_text(encoding="utf-8")
    (bug, *_) = [b for b in gate.mutants(path, source) if "settle" in b.function and b.text == "2"]
    late = source[: source.index("late <= 8 * i + 1")].count("\n") + 1
    words = covering.words_of(path, bug.function, (late, late), source)
    assert words["backward_sm90"] == words["settle"] == 4 and words["causal"] == 2
    assert "lengths" not in words

    def case(name, **params):
        return types.SimpleNamespace(
            nodeid=f"tests/x.py::{name}{list(params.values())}",
            callspec=types.SimpleNamespace(params=params),
            function=case,
            own_markers=[],
            parent=None,
            originalname=name,
            name=name,
        )

    cases = [
        case(name, version=version, causal=causal)
        for name in ("test_other", "test_versions")
        for version in ("simt", "backward_sm90")
        for causal in (False, True)
    ]
    cases += [case("test_plain", causal=False)]
    few = observer.FewCases(2, str(tmp_path / "begun"), words)
    few.pytest_collection_modifyitems(cases)
    assert [(c.originalname, *c.callspec.params.values()) for c in cases[:2]] == [
        ("test_other", "backward_sm90", True),
        ("test_versions", "backward_sm90", True),
    ]
    assert len(cases) == 5 and cases[-1].originalname == "test_plain"
    first = gate.likely_first(["cudamath/kernels/sort/onesweep.py"])
    assert "tests/kernels/sort/test_sort_kernels.py" in first[:2] and first[-1] == "tests"
    assert covering.readers("dropped synchronisation", path) and not covering.readers("keys", path)


@pytest.mark.parametrize("how", ["Traced", "Monitored"])
def test_what_a_test_executes_is_seen(gate, tmp_path, how):
    """Of a file of the package, in this thread: the statement, the function, the file."""
    import observer

    if how == "Monitored" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is of Python 3.12")
    how = getattr(observer, how)
    import cudamath as cm

    path = "cudamath/emath.py"
    bugs = gate.mutants(path, (gate.ROOT / path).read_text(encoding="utf-8"))
    places = gate.Places(bugs)
    places.write(tmp_path / "places")
    seen = observer.Observed(str(tmp_path / "places"))
    seen.watch = how(seen.called, seen.stepped)
    before = sys.gettrace()
    for _ in range(2):  # a second test sees the same
        seen.hit = set()
        seen.watch.begin()
        try:
            cm.emath.sqrt(cm.asarray([-1.0, 4.0], device="cpu"))
        finally:
            seen.watch.end()
            sys.settrace(before)
    seen.out.close()
    executed = {bug.function for bug in bugs if places.of(bug)[1] in seen.hit}
    assert any("sqrt" in name for name in executed) and not any("arctanh" in n for n in executed)
    assert places.of(bugs[0])[2] in seen.hit
    assert any(places.of(bug)[0] in seen.hit for bug in bugs)


def test_the_record(gate, tmp_path, monkeypatch):
    """Bugs with a reason count neither way, nor those that were cut off; a second run takes up the
    survivors, wherever their lines are now."""
    path = "cudamath/ops/scan.py"
    one, two, three, four = gate.mutants(path, (gate.ROOT / path).read_text("utf-8"))[:40:10]
    reasons = tmp_path / "equivalent.json"
    moved = str(two).replace(f":{two.line} ", ":1 ")
    elsewhere = {str(three): {"another line / and the next": "the same there"}}
    reasons.write_text(json.dumps({moved: "the same"} | elsewhere), encoding="utf-8")
    monkeypatch.setattr(gate, "EQUIVALENT", reasons)
    score = gate.Score({"seed": 0})
    for bug, by in ((one, "tests/x.py::y"), (two, ""), (three, ""), (four, None)):
        score.add(bug, by)
    score.write(tmp_path / "record.json")
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert (record["mutants"], record["killed"], record["score"]) == (2, 1, 0.5)
    assert record["survivors"] == [str(three)] and record["unfinished"] == [str(four)]
    assert record["equivalent"] == [str(two)]
    found, gone = gate.told_again([moved, "cudamath/ops/scan.py:7 in gone, comparison: a -> b"])
    assert [gate.nameless(str(bug)) for bug in found] == [gate.nameless(str(two))]
    assert gone == ["cudamath/ops/scan.py:7 in gone, comparison: a -> b"]
    again = gate.Score(record)
    again.again()
    for bug in (three, four):
        again.add(bug, "tests/x.py::z")
    again.write(tmp_path / "record.json")
    assert (again.record["mutants"], again.record["score"]) == (3, 1.0)


def test_reasons_are_of_one_bug_each(gate):
    """Of a place that exists, and of nothing else in its function."""
    score = gate.Score({})
    for words, reason in score.reasons.items():
        path = words.split(" in ", 1)[0]
        source = (gate.ROOT / path).read_text(encoding="utf-8")
        same = [bug for bug in gate.mutants(path, source) if gate.nameless(str(bug)) == words]
        assert same, f"no such bug any more: {words}"
        places = [score.place(bug) for bug in same]
        if isinstance(reason, dict):
            assert set(reason) <= set(places), (words, places)
            assert all(len(text) > 20 for text in reason.values())
        else:
            assert len(set(places)) == 1, f"say which one of {places} is meant: {words}"
            assert len(reason) > 20
