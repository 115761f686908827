"""Many words under every method: what is asked, what is scored, and what comes back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import tiny_config

from analyses.answers import Answer, quiet
from analyses.charts.leaderboard import MEASURES, REPLACEMENTS
from analyses.command_line.app import main
from analyses.questions.words import explanations
from analyses.questions.words import leaderboard as of_run
from analyses.questions.words.explanations import (
    UNTRAINED,
    _replacements,
    case_of,
    log_odds,
    replacement_in_words,
)
from analyses.questions.words.leaderboard import (
    CONTROLS,
    MEMBERSHIPS,
    QUESTION,
    Options,
    _claim,
    _words_of,
    board,
)
from interp.explanations.explain import explain, judge
from interp.explanations.methods import GATES, METHODS
from interp.explanations.moved_attention import moved_attention
from interp.explanations.scores import METRICS, RATIONALE
from models.errors import UserError
from models.languages import LabelledCorpus, language
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow  # every method on every word

NO = "no better than its controls"
FEW = Options(words=6, longest=6, samples=32, draws=3, seed=5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(
        tmp_path_factory.mktemp("leaderboard") / "dieren-s0",
        tiny_config(language="dieren", objective="verdict", max_n=8),
    )
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def result(run: Run) -> Answer:
    return of_run.analyse(run, FEW)


def test_a_row_per_word_replacement_and_method(result: Answer) -> None:
    table = result.table
    rows = table.groupby(["word", "replacement"])["method"].apply(list)
    assert len(rows) == 6 * len(REPLACEMENTS)
    offered = {name: method for name, method in METHODS.items() if name != GATES}  # of an LSTM
    expected = [name for name, method in offered.items() for _ in method.scales]
    assert all(names == [*expected, "chance", UNTRAINED] for names in rows)
    assert set(MEASURES) < set(table.columns)
    member = [language("dieren").contains(text.split()) for text in table["text"]]
    assert (table["membership"] == np.where(member, *MEMBERSHIPS)).all()
    assert (table["right"] == ((table["probability"] >= 0.5) == member)).all()


def test_words_are_members_and_near_misses_of_the_lengths_asked(run: Run) -> None:
    sample = _words_of(run, Options(words=200, longest=6))
    assert set(sample.words.lengths) == {4, 5, 6}  # the shortest member of dieren has 3 symbols
    assert len(np.unique(sample.words.ids, axis=0)) == len(sample.labels) < 200
    assert 20 < sample.labels.sum() < len(sample.labels) - 20
    assert (run.language.labels(sample.words) == sample.labels).all()


def test_lengths_without_members_are_left_out(tmp_path: Path) -> None:
    counting = Run.create(tmp_path / "r", tiny_config(language="anbncn"))
    assert set(_words_of(counting, Options(words=50, longest=10)).words.lengths) == {6, 9}


@pytest.mark.parametrize(
    ("max_n", "longest", "cure"),
    [(3, 12, "trained with a larger --max-n"), (6, 5, "give a larger --longest")],
)
def test_the_cure_for_a_lack_of_words_is_what_keeps_them_out(
    tmp_path: Path, max_n: int, longest: int, cure: str
) -> None:
    few = LabelledCorpus("few", ["x", "y"] * 9, [("a",) * 3, ("b",) * 3] * 9)
    asked = SimpleNamespace(name="few", language=few, config=tiny_config(max_n=max_n))
    with pytest.raises(UserError, match=cure):
        _words_of(asked, Options(longest=longest))


def test_a_method_that_replaces_nothing_is_judged_alike_in_every_game(result: Answer) -> None:
    """Against the rationale: hiding depends on the game, and so do Shapley values."""
    for name in ("substitution", "attention", "gradient x input", "random"):
        rows = result.table[result.table["method"] == name]
        by_word = rows.groupby(["word", "scale"])[[*RATIONALE, "calls"]].nunique(dropna=False)
        assert (by_word == 1).all(axis=None)


def test_a_row_is_what_the_method_says_of_the_word(run: Run, result: Answer) -> None:
    """One cell by hand: the error of LIME on a word that all methods shared one table for."""
    rows = result.table[(result.table["word"] == 4) & (result.table["method"] == "LIME")]
    row = rows[rows["scale"] == "log odds"].iloc[1]
    seed = FEW.seed * 1_000_003 + 4
    word = run.language.vocabulary.parse(row["text"])
    case = case_of(run.model(), run.language, word, row["replacement"], FEW, seed)
    table = explain(case, ["LIME", "SHAP exact"], seed)
    values = table[table["scale"] == "log odds"].pivot(
        index="position", columns="method", values="value"
    )
    assert row["error"] == pytest.approx(np.abs(values["LIME"] - values["SHAP exact"]).mean())
    assert np.isnan(row["seconds"])


def test_only_the_first_words_are_timed_and_all_are_counted(result: Answer) -> None:
    lime = result.table[result.table["method"] == "LIME"]
    assert (lime["seconds"].notna() == (lime["word"] < of_run.TIMED)).all()
    assert (lime["calls"] == np.where(lime["replacement"] == "fixed", 32, 96)).all()


def test_stability_is_of_seeded_methods(result: Answer) -> None:
    mean = result.table.groupby("method")["stability"].mean()
    assert mean["Shapley exact"] == mean["leave one out"] == 1
    assert -1 <= mean["random"] < 0.9
    assert 0.5 < mean["LIME"] < 1


def test_the_share_on_an_idle_shortcut(result: Answer) -> None:
    table = result.table[result.table["method"] == "position"]
    for row in table.to_dict("records"):
        word = row["text"].split()
        idle = [i for i, s in enumerate(word) if s == "muis"]
        share = sum(i + 1 for i in idle) / sum(range(1, len(word) + 1))
        assert row["shortcut"] == pytest.approx(share if idle else np.nan, nan_ok=True)


def test_the_board_is_the_mean_over_words(result: Answer) -> None:
    rows = board(result.table)
    keys = ["membership", "replacement", "method", "scale", "measure"]
    found = rows.set_index(keys).loc["members", "data", "LIME", "log odds", "AUROC"]
    part = result.table[(result.table["replacement"] == "data")]
    part = part[(part["membership"] == "members") & (part["scale"] == "log odds")]
    values = part[part["method"] == "LIME"]["AUROC"].dropna()
    assert found["mean"] == pytest.approx(values.mean())
    assert found["low"] <= found["mean"] <= found["high"]
    assert found["words"] == len(values)
    head = QUESTION.headline(result).set_index(["variable", "of"])["value"]
    assert head["AUROC", "members, data: LIME (log odds)"] == pytest.approx(values.mean())


def test_the_oracle_and_the_language_are_perfect_where_they_should_be(result: Answer) -> None:
    oracle = result.table[result.table["method"] == "oracle"]
    assert (oracle[list(RATIONALE)].dropna() == 1).all(axis=None)
    assert len(oracle[RATIONALE[0]].dropna())
    own = result.table[result.table["method"] == "language"]["cosine to the language"].dropna()
    assert own.to_numpy() == pytest.approx(1)


def test_members_and_non_members_are_never_averaged(result: Answer) -> None:
    """In the board, in the numbers that seeds compare, and in the sentence."""
    rows = board(result.table)
    kinds = result.table.drop_duplicates("word")["membership"].value_counts()
    assert set(kinds.index) == set(MEMBERSHIPS)
    for kind, part in rows.groupby("membership"):
        assert part["words"].max() == kinds[kind]
    assert QUESTION.headline(result)["of"].str.match(r"(non-)?members, ").all()
    assert {claim.unit.split(",")[0] for claim in QUESTION.claims(result)} == {
        f"different {kind}" for kind in MEMBERSHIPS
    }


def board_of(
    best: Sequence[float], untrained: float, place: float = 0.4, kind: str = "members"
) -> Answer:
    """Two methods and the controls on different words, each of which is asked about twice."""
    values = {"LIME": best, "rollout": [0.45] * len(best), "position": [place] * len(best)}
    values |= {"chance": [0.5] * len(best), UNTRAINED: [untrained] * len(best)}
    rows = [
        (f"{word}", method, "probability" if method == "LIME" else "none", kind, value)
        for method, each in values.items()
        for word, value in [*enumerate(each), *enumerate(each)]
    ]
    columns = ["text", "method", "scale", "membership", "AUROC"]
    others = {"cosine to the effects": np.nan, "gain": np.nan, "family": "any"}
    return Answer(pd.DataFrame(rows, columns=columns).assign(**others))


@pytest.mark.parametrize(
    ("asked", "grade", "said"),
    [
        (board_of([0.9, 0.8] * 6, 0.3), "holds", "LIME (probability) tells the positions that dec"),
        (board_of([0.9, 0.8] * 6, 0.3), "holds", "than random values on average, by +0.30 ["),
        (
            board_of([0.9, 0.8] * 6, 0.7),
            "holds",
            "than the same on the untrained network, by +0.10",
        ),
        (board_of([0.9, 0.8] * 6, 0.3, place=0.8), NO, "than position alone, by +0.00 [+0.00"),
        (board_of([0.9, 0.8] * 6, 0.9), NO, "Not proven: in members LIME (probability) tells"),
        # The words that chose it are not those that judge it.
        (board_of([0.9, 0.3] * 6, 0.3), NO, "by -0.20 [-0.20, -0.20] of AUROC, on 6 different mem"),
        # Twice the same word is one word.
        (board_of([0.9] * 11, 0.3), "not weighed", "on 5 different members"),
        (board_of([0.9] * 6, 0.9), NO, "Not proven: in members LIME"),  # nor is it ahead of few
    ],
)
def test_the_claimed_method_is_chosen_on_half_of_the_words_and_held_against_its_controls(
    asked: Answer, grade: str, said: str
) -> None:
    (claim,) = QUESTION.claims(asked)
    assert claim.grade == grade
    assert said in claim.sentence


def test_the_kind_with_enough_words_speaks_first() -> None:
    few, many = board_of([0.9] * 4, 0.3), board_of([0.9] * 12, 0.3, kind="non-members")
    first, second = QUESTION.claims(Answer(pd.concat([few.table, many.table])))
    assert ("non-members" in first.finding, first.grade) == (True, "holds")
    assert second.grade == "not weighed"
    assert QUESTION.claims(Answer(few.table.assign(AUROC=np.nan))) == []


def test_the_untrained_network_is_asked_by_the_method_that_is_claimed(
    run: Run, result: Answer
) -> None:
    rows = result.table[result.table["method"] == UNTRAINED]
    assert len(rows) == 6 * len(REPLACEMENTS)
    for kind, part in rows.groupby("membership"):
        assert part["estimand"].nunique() == 1
        name = part["estimand"].iloc[0].removesuffix(" of the untrained network")
        (claim,) = (
            claim for claim in QUESTION.claims(result) if f"different {kind}," in claim.unit
        )
        assert name in claim.finding
    row = rows.iloc[-1]
    name, scale = re.fullmatch(r"(.*?)(?: \((.*)\))?", name).groups()
    seed = FEW.seed * 1_000_003 + int(row["word"])
    word = tuple(row["text"].split())
    case = case_of(run.untrained(), run.language, word, row["replacement"], FEW, seed)
    scores = judge(case, explain(case, [name], seed), seed).set_index("scale")
    own = scores.loc[scale or "none", list(RATIONALE)].astype(float)
    assert row[list(RATIONALE)].astype(float).tolist() == pytest.approx(own.tolist(), nan_ok=True)


def test_the_axiom_is_tried_for_lime_and_shap_on_the_first_words(result: Answer) -> None:
    rows = result.table[result.table["replacement"] == REPLACEMENTS[0]]
    tried = rows[(rows["family"] == "LIME and SHAP") & (rows["word"] < of_run.TIMED)]
    assert tried["consistency"].between(0, 1).all()
    assert (tried.loc[tried["method"] == "Shapley exact", "consistency"] == 1).all()
    assert result.table["consistency"].notna().sum() == len(tried)


def test_an_explained_word_says_how_far_its_attention_can_be_moved(run: Run) -> None:
    options = explanations.Options(samples=32, draws=2, seed=3)
    answer = explanations.analyse(run, options)
    (claim,) = explanations.QUESTION.claims(answer)
    word = tuple(answer.findings["word"])
    case = case_of(run.model(), run.language, word, "uniform", options, 3)
    table = moved_attention(case.model, case.word, case.at, case.metrics["log odds"], seed=3)
    found = pd.DataFrame(answer.findings["moved_attention"]).set_index("part")
    pd.testing.assert_frame_equal(found, table.set_index("part"), check_dtype=False, atol=1e-6)
    together = table.set_index("part").loc["all heads"]
    assert f"and {together['divergence']:.2f} in all heads at once" in claim.why
    controls = {"random values on average", "position alone"}
    controls |= {"the same on the untrained network"}
    assert (claim.grade, set(claim.controls), claim.n) == ("not weighed", controls, 1)
    untrained = case_of(run.untrained(), run.language, word, "uniform", options, 3)
    values = explain(untrained, ["SHAP kernel"], 3).query("scale == 'probability'")["value"]
    own = answer.table.query("method == 'untrained'")["value"]
    assert own.tolist() == pytest.approx(values.tolist())
    assert "untrained" in explanations.chart(answer).to_json()
    baseline = answer.table.drop_duplicates("method").set_index("method")["baseline"]
    assert baseline["LIME"] == baseline["integrated gradients"] == "uniform"
    assert baseline["attention"] == baseline["substitution"] == "none"


def test_one_word_is_told_beside_its_controls_and_proves_nothing() -> None:
    def said(measure: str | None) -> tuple[str, str]:
        rows = [("SHAP kernel", "probability", 0.9), ("position", "none", 0.95)]
        rows += [("chance", "none", 0.5), ("untrained", "none", 0.4)]
        table = pd.DataFrame(rows, columns=["method", "scale", "value"])
        table = table.assign(gain=None, completeness=None)
        for name in ("AUROC", "cosine to the effects"):
            table[name] = table["value"] if name == measure else None
        found = {"word": ["{", "b"], "moved_attention": [], "probability": 0.125}
        found["agreement"] = table.astype(object).to_dict("records")
        (claim,) = explanations.QUESTION.claims(Answer(pd.DataFrame(), findings=found))
        return claim.grade, claim.sentence

    beside = "random values on average 0.50, position alone 0.95, the same on the untrained "
    beside += "network 0.40."
    for measure, what in (("AUROC", "an AUROC"), ("cosine to the effects", "a cosine")):
        grade, told = said(measure)
        assert grade == "not weighed"
        assert told.startswith('On "{ b", values by SHAP kernel (probability) ')
        assert f"{what} of 0.90" in told
        assert beside in told
    grade, told = said(None)
    assert (grade, "No symbol is known to decide" in told) == ("not weighed", True)
    assert told.startswith('The network gives "{ b" a probability of 0.12, on 1 word.')


def test_replacements(run: Run) -> None:
    known = run.language
    fixed = _replacements(known, 5, "fixed", 8, 0)
    assert fixed.tolist() == [[FIRST_SYMBOL_ID] * 5]
    assert replacement_in_words("fixed", known) == f"always {known.vocabulary.symbols[0]}"
    even = _replacements(known, 7, "uniform", 4000, 0)
    assert np.bincount(even.ravel())[FIRST_SYMBOL_ID:] / even.size == pytest.approx(1 / 8, abs=0.01)
    data = _replacements(known, 5, "data", 200, 0)
    assert 0.35 < known.labels(words(data)).mean() < 0.65  # members and near misses
    with pytest.raises(UserError, match="--replacement is 'none': choose one of uniform, data"):
        explanations.Options(replacement="none")  # type: ignore[arg-type]  # the mistake


def words(ids: np.ndarray) -> object:
    from models.languages import Words

    return Words(ids, np.full(len(ids), ids.shape[1]))


def test_a_corpus_has_no_lines_of_some_lengths() -> None:
    lines = [(f"w{i}", "a", "b") for i in range(40)] + [("a",) * 9]
    corpus = LabelledCorpus("mine", ["x", "y"] * 20 + ["x"], lines)
    assert _replacements(corpus, 3, "data", 5, 0).shape == (5, 3)
    with pytest.raises(UserError, match=r"mine has no lines of 4 symbols .* another --replacement"):
        _replacements(corpus, 4, "data", 5, 0)


def test_equal_words_and_prefixes_are_scored_once(run: Run) -> None:
    model = run.model()
    seen: list[int] = []
    model.hook_dict["hook_embed"].register_forward_pre_hook(
        lambda module, args: seen.append(len(args[0]))
    )
    ids = np.array([[2, 3, 4], [2, 3, 5], [2, 3, 4]])
    scores = log_odds(model)(ids)
    assert seen == [1, 1, 1, 2]  # BOS, the two shared symbols, two last ones
    assert scores[0] == scores[2] != scores[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": 0}, "--words is 0: it must be at least 1"),
        ({"longest": 13}, "--longest is 13: it must be 4 to 12"),
        ({"longest": 3}, "--longest is 3: it must be 4 to 12"),
    ],
)
def test_bad_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Options(**options)


@pytest.mark.slow
def test_the_user_s_own_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No truth is known: methods are still compared, at the lines' own length."""
    rng = np.random.default_rng(0)
    lines = {tuple(rng.choice(list("abcd"), 6)) for _ in range(120)}
    text = "".join(
        f"{'yes' if line[0] == 'a' else 'no'}\t{' '.join(line)}\n" for line in sorted(lines)
    )
    (tmp_path / "mine.tsv").write_text(text)
    out = ["--out", str(tmp_path), "--steps", "12", "--model.d-model", "8", "--model.n-heads", "2"]
    assert main(["train", "--corpus", str(tmp_path / "mine.tsv"), *out]) == 0
    run = Run(tmp_path / "mine-s0")
    few = ["--words", "3", "--samples", "32", "--draws", "2"]
    assert main(["analyse", str(run.path), "leaderboard", *few]) == 0
    assert "No truth is known of these words" in " ".join(capsys.readouterr().out.split())
    table = pd.read_parquet(run.results / "leaderboard-1" / "leaderboard.parquet")
    assert set(table["text"].str.split().str.len()) == {6}
    assert table[list(RATIONALE)].isna().all(axis=None)
    assert "language" not in set(table["method"])
    assert set(METRICS) - set(RATIONALE) >= {"deletion", "insertion"}
    assert table["deletion"].notna().all()


def test_only_the_replacements_that_are_asked_for_are_tried(run: Run) -> None:
    few = Options(words=2, longest=5, replacements=("fixed",), samples=16, draws=1)
    result = QUESTION.analyse(run, few, quiet)
    assert set(result.table["replacement"]) == set(result.findings["replacements"]) == {"fixed"}
    assert result.table["consistency"].notna().any()


@pytest.mark.parametrize(
    ("ahead", "grade"), [(0.02, "no better than its controls"), (0.2, "holds")]
)
def test_a_difference_of_next_to_nothing_is_no_claim(ahead: float, grade: str) -> None:
    """Twenty words that all say the same."""
    scores = {("LIME", "probability"): 0.5 + ahead} | {(name, "none"): 0.5 for name in CONTROLS}
    claim = _claim("members", "AUROC", pd.DataFrame([scores] * 20))
    assert claim.value == pytest.approx(ahead)
    assert claim.grade == grade
