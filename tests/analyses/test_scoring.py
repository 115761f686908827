"""Are lenses graded by the truth, with no truth in their reach, and is a fault a zero?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations, product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from analyses.answers import Answer
from analyses.command_line.app import main
from analyses.options.plants import SETTINGS, Score
from analyses.scoring import board, keys, lenses, planted
from analyses.scoring.door import Door, Reply
from analyses.scoring.grades import MAIN, PROXIES, TRUTH, _ranking, grade, oracle
from analyses.scoring.inside import as_lists
from analyses.scoring.keys import _rationales, _relevant, basis
from analyses.scoring.paper import OF_PLANTS, Question, read_network, read_words, write_network
from analyses.scoring.summary import AGAIN, ALL, compact, meta_score, summed_up
from models.errors import UserError
from models.languages.grammars.bounded import BOUNDED
from models.plants.plant import Plant, plant
from models.plants.record import PlanRecord
from models.transformer.model import HookedTransformer

LENS = """
import os, time, torch
def ok(model, words): return torch.arange(len(words.parts)).float()
def crash(model, words): raise KeyError("what is this")
def prints(model, words):
    print("hello")
    return ok(model, words)
def nan(model, words): return ok(model, words) * float("nan")
def short(model, words): return ok(model, words)[:-1]
def text(model, words): return "the heads"
def thing(model, words): return model
def plan(model, words): return open("plan.json").read()
def hidden(model, words):
    try:
        import models.plants.plant
    except BaseException:
        pass
    return ok(model, words)
def key(model, words):
    from analyses.scoring.keys import keys
    return ok(model, words)
def leaves(model, words): os._exit(3)
def writes(model, words, line=b"mine"):
    for pipe in range(3, 30):
        try:
            os.write(pipe, line + b"\\n")
        except OSError:
            pass
    return ok(model, words)
def number(*job): return writes(*job, b'{"fault": 5}')
def many(*job): return writes(*job, b'{"answer": "x", "calls": "many"}')
def binary(*job): return writes(*job, b"\\xff\\xfe")
def hangs(model, words):
    import subprocess
    subprocess.Popen(["sleep", "1000"])
    os.closerange(3, 30)
    while True: time.sleep(1)
def removes(model, words):
    import shutil
    shutil.rmtree(os.getcwd())
    return ok(model, words)
def forever(model, words):
    while True: time.sleep(1)
LENSES = {name: {"parts": f} for name, f in list(globals().items()) if callable(f)}
"""
LIMIT = 3.0
"""Seconds for an answer: the lenses that hang are waited for."""
SAID = {
    "crash": "KeyError: 'what is this'",
    "prints": "it printed 6 bytes: a lens answers by what it returns",
    "thing": "its answer holds something that is no number or text",
    "plan": "it opened plan.json, where the truth is",
    "hidden": "it imported models.plants.plant, where the truth is",
    "key": "it imported analyses.scoring.keys, where the truth is",
    "leaves": "its process ended (status 3)",
    **dict.fromkeys(
        ("writes", "number", "many", "binary"), "it wrote among the replies of its process"
    ),
    "hangs": "its process ended (closed its replies, and went on)",
    "removes": "it removed its working folder",
    "forever": f"no answer within {LIMIT:g} seconds",
}
ALIKE = {"key", "number", "many", "binary", "thing", "hidden", "removes"}
"""Faults that are near to others. After most of them the process has to start again."""


@pytest.fixture(scope="module")
def made() -> Plant:
    return plant("majority-10", SETTINGS["decoys"], 1)


@pytest.fixture(scope="module")
def asked(made: Plant) -> dict[Question, Any]:
    return {key.question: key for key in keys.keys(made, OF_PLANTS)}


# -- the truth ------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=16, max_size=16), st.integers(0, 15))
def test_rationales_are_the_minimal_sets_that_decide(members: list[bool], number: int) -> None:
    """By brute force over all sets and all words of four symbols."""
    shares = np.array(members, dtype=float).reshape((2,) * 4)
    word = [int(bit) for bit in f"{number:04b}"]
    words = list(product((0, 1), repeat=4))

    def decides(places: tuple[int, ...]) -> bool:
        alike = [w for w in words if all(w[p] == word[p] for p in places)]
        return len({shares[w] for w in alike}) == 1

    sets = [c for size in range(5) for c in combinations(range(4), size) if decides(c)]
    minimal = [list(s) for s in sets if not any(set(o) < set(s) for o in sets)]
    assert sorted(_rationales(shares, word)) == sorted(minimal)
    assert set(np.flatnonzero(_relevant(shares, word))) == {p for s in minimal for p in s}


@pytest.mark.parametrize(
    ("program", "setting"),
    [
        ("majority-10", "decoys"),
        ("subsequence-8", "either"),
        ("first-is-last-8", "both"),
        ("modular-10", "superposed"),
        *(
            pytest.param(program, setting, marks=pytest.mark.torture)
            for program, setting in product(BOUNDED, SETTINGS)
        ),
    ],
)
def test_the_truth_itself_gets_full_marks(program: str, setting: str) -> None:
    one = plant(program, SETTINGS[setting], 3)
    for key in keys.keys(one, OF_PLANTS):
        found = grade(key, as_lists(oracle(key)), one.model)
        assert set(found) == {*TRUTH[key.question], *PROXIES[key.question]}
        for measure in TRUTH[key.question]:
            if not measure.startswith("cosine"):  # the truth of positions has no sizes
                assert found[measure] == pytest.approx(1), (key.question, key.variable, measure)
        if key.question == "variable":
            assert found["interchange accuracy"] >= 0.95, key.variable


def test_values_of_a_word_by_shapley_get_a_cosine_of_one(
    made: Plant, asked: dict[Question, Any]
) -> None:
    key = asked["positions"]
    assert grade(key, key.shapley.tolist(), made.model)["cosine to Shapley values"] == 1
    members = np.array([word.count(2) > 3 for word in key.words.tokens[:, 1:].tolist()])
    total = key.shapley.sum(axis=1)
    assert ((total > 0) == members).all()  # from the share of members among all words to 0 or 1


@pytest.mark.parametrize("question", ["positions", "parts", "edges"])
def test_random_values_are_at_chance(question: Question, asked: dict[Question, Any]) -> None:
    rng = np.random.default_rng(0)
    rows = np.atleast_2d(asked[question].inside)
    draws = [_ranking(row, rng.normal(size=len(row)))["AUROC"] for row in rows for _ in range(50)]
    assert np.mean(draws) == pytest.approx(0.5, abs=0.06)


def test_a_wrong_site_and_other_directions_are_not_where_a_variable_lives(
    made: Plant, asked: dict[Question, Any]
) -> None:
    key, width = asked["variable"], made.model.config.d_model
    site, rows = as_lists(oracle(key))
    early = grade(key, [key.words.sites[0], rows], made.model)
    assert (early["located"], early["site"]) == (0, 0)
    assert early["overlap"] == pytest.approx(1)
    assert early["interchange accuracy"] == 0.5  # nothing moves, and half of the exchanges turn
    whole = grade(key, [site, np.eye(width).tolist()], made.model)
    assert whole["overlap"] == pytest.approx(len(rows) / width)
    away = np.linalg.svd(np.array(rows))[2][-1:]
    assert grade(key, [site, away.tolist()], made.model)["located"] == pytest.approx(0, abs=1e-9)


def test_two_copies_of_a_variable_are_exchanged_together() -> None:
    one = plant("first-is-last-8", SETTINGS["both"], 0)
    found = {key.variable: key for key in keys.keys(one, ["variable"])}
    assert not any("again" in name for name in found)
    both = sum(one.directions[name].double().numpy() for name in ("same", "same, again"))
    along = basis(both if len(both) == 1 else both - both.mean(axis=0))
    assert abs(along @ found["same"].directions.T) == pytest.approx(np.eye(len(along)))


def test_a_program_follows_what_a_variable_is_given() -> None:
    program = plant("majority-10").program
    name = next(v.name for v in program.variables if v.name == "lead")
    lead = program.trace(tuple("aaab"))[name]
    assert not program.says(tuple("bbba"))
    assert program.says(tuple("bbba"), {name: lead})


# -- forms ----------------------------------------------------------------------------------------


def test_a_network_and_words_come_through_unchanged(
    tmp_path: Path, made: Plant, asked: dict[Question, Any]
) -> None:
    write_network(made.model, tmp_path)
    for question, key in asked.items():
        key.words.write(tmp_path, question)
        words, same = read_words(tmp_path)
        assert same == question
        for name, value in vars(key.words).items():
            other = getattr(words, name)
            equal = torch.equal(value, other) if torch.is_tensor(value) else value == other
            assert equal, name
    tokens = asked["edges"].words.tokens
    torch.testing.assert_close(read_network(tmp_path)(tokens), made.model(tokens))
    assert b"majority" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("parts", [[1.0]], r"^numbers of shape \[1, 1\]: give \[\d+\]$"),
        ("parts", None, r"^numbers of shape \[\]: give \[\d+\]$"),
        ("parts", {"L0H0": 1}, "^not numbers: give"),
        ("parts", [10**400], "^a number is too large$"),
        ("positions", [[float("inf")] * 6] * 16, "^96 numbers are NaN or infinite$"),
        ("variable", 3, "^not a site with directions: give both$"),
        ("variable", ["blocks.9", [[1.0]]], "^the site 'blocks.9' was not offered"),
        ("variable", ["blocks.0.hook_resid_pre", []], "^0 directions: give 1 to 64$"),
        ("rule", {"start": 0}, '^no automaton: give {"start"'),
    ],
)
def test_answers_of_another_form_are_told(
    made: Plant, asked: dict[Question, Any], question: Question, answer: object, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        grade(asked[question], answer, made.model)


def test_directions_of_length_zero_are_told(made: Plant, asked: dict[Question, Any]) -> None:
    key = asked["variable"]
    rows = [[0.0] * made.model.config.d_model]
    with pytest.raises(ValueError, match="directions are zero"):
        grade(key, [key.words.sites[0], rows], made.model)


# -- the door -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    file = tmp_path_factory.mktemp("lens") / "lens.py"
    file.write_text(LENS)
    with Door(file, limit=LIMIT) as opened:
        yield opened


@pytest.mark.slow
def test_a_fault_is_one_line_and_a_zero(
    door: Door,
    made: Plant,
    asked: dict[Question, Any],
    full: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("analyses.scoring.door.LAST", 1.0)  # one goes on, and is waited for
    key = asked["parts"]
    own = (made.model, key.words, key.question)
    assert door.ask(*own, "ok").answer == [float(i) for i in range(len(key.words.parts))]
    graded = {"nan": "NaN or infinite", "short": "of shape", "text": "not numbers"}
    for name in (*(SAID if full else sorted({*SAID} - ALIKE)), *graded):
        reply = door.ask(*own, name)
        rows = list(board._rows(key, name, "planted", reply, made.model))
        assert [row["value"] for row in rows] == [0.0] * len(TRUTH["parts"]), name
        (fault,) = {row["fault"] for row in rows}
        assert "\n" not in fault
        assert SAID[name] == fault if name in SAID else graded[name] in fault
    assert not door.ask(*own, "ok").fault  # all that went wrong before changes nothing


@pytest.mark.slow
def test_a_thread_of_a_lens_does_not_keep_its_process(tmp_path: Path) -> None:
    """The file may have any name: one without .py is read."""
    thread = "threading.Thread(target=time.sleep, args=(1000,)).start()"
    (tmp_path / "lens").write_text(f"import threading, time\n{thread}\ndef parts(*_): ...\n")
    command = [sys.executable, "-m", "analyses.scoring.inside", str(tmp_path / "lens")]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "{}\n")


@pytest.mark.slow
def test_a_file_that_does_not_start_is_started_once(
    tmp_path: Path,
    made: Plant,
    asked: dict[Question, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "lens").write_text("import time\ntime.sleep(1000)\ndef parts(*_): return []\n")
    monkeypatch.setattr("analyses.scoring.door.START", 0.5)
    job = (made.model, asked["parts"].words, "parts")
    with Door(tmp_path / "lens", limit=3) as door:
        assert door.ask(*job).fault == "no answer within 0.5 seconds"
        monkeypatch.setattr(Door, "_start", lambda _: pytest.fail("it is started again"))
        assert door.ask(*job).fault == "no answer within 0.5 seconds"


def test_a_lens_may_have_any_name_but_that_of_a_control(tmp_path: Path) -> None:
    """ "random" would be averaged into the control's rows."""
    (tmp_path / "random").write_text("def parts(model, words): return [1.0]\n")
    with pytest.raises(UserError, match=r"random has the name of a control: give the file another"):
        board.score(Score(tmp_path / "random", out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_whose_rights_a_lens_has_is_said_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> None:
        said.extend(capsys.readouterr().err.split())
        raise UserError("enough")

    said: list[str] = []
    monkeypatch.setattr(board, "score", run)
    (tmp_path / "lens.py").write_text("def parts(model, words): return [1.0]\n")
    assert main(["score", str(tmp_path / "lens.py")]) == 2
    assert "runs with all your rights: score only a file that you have read" in " ".join(said)
    with suppress(SystemExit):
        main(["score", "--help"])
    help = " ".join(capsys.readouterr().out.split())
    assert "with all rights that you have" in help.replace("│ │", "")


# -- the board ------------------------------------------------------------------------------------


def table_of(values: dict[str, float], proxy: dict[str, float]) -> pd.DataFrame:
    own = {"question": "edges", "variable": "", "setting": "open", "seed": 0, "network": "planted"}
    return pd.DataFrame(
        own
        | {"program": program, "lens": lens, "measure": measure, "value": numbers[lens]}
        | {"fault": "", "calls": 1, "milliseconds": 1.0}
        for program in ("one", "two", "three")
        for measure, numbers in (("AUROC", values), ("CPR", proxy))
        for lens in values
    )


def test_the_meta_score_says_whether_a_proxy_orders_lenses_as_the_truth_does() -> None:
    truth = {"a": 0.9, "b": 0.7, "c": 0.6, "d": 0.5}
    backwards = {lens: -value for lens, value in truth.items()}
    for proxy, r in ((truth, 1.0), (backwards, -1.0)):
        # Random values, and a lens that answers as another one does, are not ranked.
        ends = ((truth, 9), (proxy, -9))
        more = [{**of, lenses.RANDOM: end, "as d": of["d"]} for of, end in ends]
        row = meta_score(table_of(*more)).set_index("setting").loc[ALL]
        assert (row["mean"], row["low"], row["high"], row["programs"]) == (r, r, r, 3)
    assert not len(meta_score(table_of(dict(list(truth.items())[:3]), truth)))  # too few to order


def test_the_truth_may_order_the_lenses_otherwise_on_another_seed() -> None:
    truth = {"a": 0.9, "b": 0.7, "c": 0.6, "d": 0.5}
    backwards = {lens: -value for lens, value in truth.items()}
    seeds = [table_of(of, truth).assign(seed=seed) for seed, of in enumerate((truth, backwards))]
    again = meta_score(pd.concat(seeds)).set_index(["proxy", "setting"]).loc[(AGAIN, ALL)]
    assert (again["mean"], again["programs"], again["networks"]) == (-1, 3, 6)


def test_a_lens_is_summed_up_over_programs_and_faults_count_as_zero() -> None:
    table = table_of({"a": 1.0, lenses.RANDOM: 0.5}, {"a": 0.0, lenses.RANDOM: 0.0})
    bad = (table["program"] == "two") & (table["lens"] == "a")
    table.loc[bad, "fault"], table.loc[bad, "value"] = "no answer", 0.0
    found = summed_up(table).set_index(["lens", "setting"]).loc[("a", ALL)]
    assert (found["mean"], found["faults"]) == (pytest.approx(2 / 3), 1)
    assert found["low"] == 0
    assert compact(summed_up(table))["lens"].tolist() == ["a", lenses.RANDOM]


def test_a_file_is_scored_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "out"
    file.write_text("def parts(model, words): return [float(len(p)) for p in words.parts]\n")
    words = ["score", str(file), "--programs", "majority-10", "--settings", "decoys"]
    words += ["--seeds", "1", "--workers", "1", "--out", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "mine.py" in said
    assert "oracle" in said
    result = board.score(Score(file, ("majority-10",), ("decoys",), 1, out=out, workers=1))
    mine = result.table[result.table["lens"] == "mine.py"]
    assert set(mine["question"]) == {"parts"}
    assert set(mine["network"]) == {"planted", "untrained"}
    assert len((out / "scores" / "log.jsonl").read_text().splitlines()) == 2
    monkeypatch.setattr(Door, "ask", lambda *_: pytest.fail("what is kept is asked again"))
    assert main(words) == 0
    monkeypatch.undo()
    file.rename(tmp_path / "other.py")
    other = board.score(
        Score(tmp_path / "other.py", ("majority-10",), ("decoys",), 1, out=out, workers=1)
    )
    assert "other.py" in set(other.table["lens"])
    assert "mine.py" not in set(other.table["lens"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("def parts(", r"is no Python \(line 1: .*\): correct it$"),
        ("a = 1\0", "is no Python"),
        ("-" * 200_000 + "1", "is no Python"),
        ("x = 1\n", "answers no question: define one of positions, parts"),
        (None, "give the path of a Python file"),
    ],
)
def test_a_file_that_is_no_lens_is_told_before_any_work(
    tmp_path: Path, content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=said):
        board.score(Score(file, out=tmp_path))
    assert main(["score", str(file), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "scores").exists()


def test_names_that_nobody_knows_are_told() -> None:
    with pytest.raises(UserError, match="majority-11"):
        Score(programs=("majority-11",))
    with pytest.raises(UserError, match="hidden"):
        Score(settings=("hidden",))


def test_the_labs_own_lenses_answer_each_in_the_right_form(
    made: Plant, asked: dict[Question, Any]
) -> None:
    for lens, functions in lenses.LENSES.items():
        for question, function in functions.items():
            if lens.startswith(("SHAP", "DAS")) or question not in asked:
                continue  # seconds, or of trained networks; they are tested by themselves
            key = asked[question]
            found = grade(key, as_lists(function(made.model, key.words)), made.model)
            assert all(np.isfinite(found[name]) for name in TRUTH[question]), lens
            if lens.startswith("path patching") or lens == "L*":
                assert found[{"rule": "exact"}.get(question, "AUROC")] == 1, lens


def test_a_plan_stands_beside_what_was_found() -> None:
    edges = [["embed", "L0H0.v"], ["L0H0", "logits"], ["embed", "logits"]]
    plan = cast(PlanRecord, {"edges": edges[:2]})  # all that is read
    marked = planted.marks(plan, [edges[1], edges[2]])
    wanted = dict(zip(map(tuple, edges), ("missed", "hit", "not in the plan"), strict=True))
    assert marked == wanted
    assert planted.counted(marked).startswith("Of the 2 edges of the plan 1 were found, and 1 ")
    kept = {"edges": edges, "planned": [True, True, False], "scores": {"mine": [0.1, -4.0, 2.0]}}
    found = planted.found_by(kept, "mine")
    assert found["mark"].tolist() == list(wanted.values())
    assert found["exact"].tolist() == [0.025, 1.0, 0.5]


def test_rankings_of_circuits_are_held_against_the_plan() -> None:
    plan = cast(PlanRecord, {"edges": [["embed", "logits"]]})  # all that is read
    table = pd.DataFrame(
        {
            "model": ["trained", "trained", "untrained"],
            "direction": "noising",
            "sender": ["embed", "L0H0", "embed"],
            "receiver": "logits",
            "exact": [-0.9, 0.1, 0.0],
            "EAP": [0.1, 0.2, 9.0],
        }
    )
    found = planted.rankings(plan, Answer(table, ""))
    assert found["edges ranked by"].tolist() == ["exact, noising", "EAP, noising", "random values"]
    assert found["AUROC"].tolist() == [1.0, 0.0, 0.5]
    assert found["average precision"].tolist() == [1.0, 0.5, 0.5]


def test_every_row_is_of_the_network_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reply says which network was asked, as a fault; controls answer by themselves."""
    weights = plant("majority-10", SETTINGS["decoys"], 0).model.W_E

    def ask(door: Door, model: HookedTransformer, *asked: object) -> Reply:
        return Reply(fault="planted" if torch.equal(model.W_E, weights) else "untrained")

    monkeypatch.setattr(Door, "ask", ask)
    file = Path(lenses.__file__)
    own = (file, "digest", None, "majority-10", "decoys", 0, 1.0, tmp_path)
    table = board.scored(*own)
    asked = table[~table["lens"].isin(["oracle", lenses.RANDOM])]
    assert set(asked["network"]) == {"planted", "untrained"}
    assert (asked["fault"] == asked["network"]).all()
    assert (asked["value"] == 0).all()
    main = table[table["measure"] == table["question"].map(MAIN)]
    by_lens = main.groupby("lens")["value"]
    assert by_lens.min()["oracle"] == pytest.approx(1)
    assert by_lens.max()[lenses.RANDOM] < 1
    assert set(table.loc[table["lens"].isin(["oracle", lenses.RANDOM]), "fault"]) == {""}
