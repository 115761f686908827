"""The verdicts on all short words, by hand; and what may be said of shares and sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from brute import words_up_to
from conftest import TINY, tiny_config
from drawn import words_of

from analyses.answers import Answer, fresh_answer
from analyses.answers import answer as ask
from analyses.options.behaviour import Accuracy
from analyses.questions.behaviour import accuracy
from analyses.questions.behaviour.accuracy import (
    QUESTION,
    _chosen_lengths,
    analyse,
    every_word,
    exact_to,
    leaning,
    totals,
)
from analyses.studies.listing import runs_of
from interp.statistics import wilson
from models.errors import UserError
from models.languages import LabelledCorpus, PairCorpus
from models.runs.run import Run
from models.training.evaluation import balanced_words, predict, probabilities
from models.training.loop import train

WIDER = replace(TINY, d_model=12)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trained for so short a time that it accepts some words and rejects some."""
    changes = {"learning_rate": 1e-2, "batch_size": 32, "max_n": 5, "model": WIDER}
    config = tiny_config(steps=60, evaluate_every=60, **changes)
    made = Run.create(tmp_path_factory.mktemp("accuracy") / "run", config)
    train(made, "cpu")
    return made


def drawn_in_training(run: Run) -> set[tuple[str, ...]]:
    steps = (words_of(run.config, run.language, step)[0] for step in range(run.config.steps))
    return {
        run.language.vocabulary.decode(ids[:length])
        for words in steps
        for ids, length in zip(words.ids, words.lengths, strict=True)
    }


def test_the_verdicts_on_all_words_are_those_asked_one_by_one(run: Run) -> None:
    """False accepts and rejects could be swapped, and so could the models, without this."""
    answer = fresh_answer(run, QUESTION, Accuracy(max_n=2, all_words=7))
    known = drawn_in_training(run)
    models = {"trained": run.model(), "untrained": run.untrained()}
    expected = {(name, n): Counter[str]() for name in models for n in range(1, 8)}
    wrong: dict[str, list[str]] = {"false_accepts": [], "false_rejects": []}
    for word in filter(None, words_up_to("ab", 7)):
        label = run.language.contains(word)
        for name, model in models.items():
            said = predict(model, word, run.objective)[1]
            kinds = ["words"] + ["members"] * label
            if said != label:
                kinds.append("false_accepts" if said else "false_rejects")
                if name == "trained":
                    wrong[kinds[-1]].append(" ".join(word))
            expected[name, len(word)].update(kinds)
            expected[name, len(word)].update(f"fresh_{k}" for k in kinds if word not in known)
    every = answer.findings["all_words"]
    found = {(row["model"], row["length"]): Counter(row) for row in every["by_length"]}
    for where, counts in expected.items():
        assert {key: found[where][key] for key in counts} == counts, where
        assert sum(found[where][key] for key in counts) == sum(counts.values())
    sums = totals(every, "trained")
    assert sums["words"] == 254
    assert 0 < sums["fresh_words"] < 254
    assert sums["false_accepts"] + sums["false_rejects"] > 0
    assert sums != totals(every, "untrained")
    for kind, examples in every["examples"].items():
        assert len(examples) == min(5, len(wrong[kind]))
        assert set(examples) <= set(wrong[kind])
    numbers = QUESTION.headline(answer).set_index(["of", "variable"])["value"]
    for model in models:
        own = totals(every, model)
        assert numbers["false accepts, all words to length 7", model] == own["false_accepts"]
        assert numbers["false rejects, all words to length 7", model] == own["false_rejects"]
    shown = every_word(answer)
    assert shown is not None
    assert shown["words"].tolist() == [2, 4, 8, 16, 32, 64, 128]
    assert shown["false accepts"].sum() == sums["false_accepts"]
    others = 254 - sums["members"]
    assert (
        f"Of all 254 words of 1 to 7 symbols it accepts {sums['false_accepts']} of {others} others "
        f"and rejects {sums['false_rejects']} of {sums['members']} members"
    ) in answer.sentence


@pytest.mark.slow
def test_a_network_that_leans_on_the_shortcut_is_caught(tmp_path: Path) -> None:
    """By hand on each word; the untrained network leans on nothing, and other symbols do not
    matter."""
    config = tiny_config(
        language="dieren_muis", max_n=8, steps=150, evaluate_every=150, batch_size=64,
        learning_rate=1e-2, objective="verdict", model=replace(TINY, d_model=16),
    )  # fmt: skip
    run = Run.create(tmp_path / "run", config)
    train(run, "cpu")
    answer = fresh_answer(run, QUESTION, Accuracy(max_n=2, all_words=0))
    rows = pd.DataFrame(answer.findings["leans_on"])
    own = rows[rows["model"] == "trained"].set_index("symbol")
    inert = {"aap", "hond", "kanarie", "kat", "muis", "slang"}
    assert set(own.index) == inert
    assert own["effect"].idxmax() == "muis"
    assert own.loc["muis", "corrected"] <= 0.05 < own.drop("muis")["corrected"].min()
    assert (rows[rows["model"] == "untrained"]["corrected"] > 0.05).all()
    table = leaning(answer)
    assert table is not None
    assert table["symbol"].tolist() == sorted(inert)
    shown = table.set_index("symbol").loc["muis", "trained"]
    assert f"muis ({shown})" in answer.sentence
    assert "It leans on 1 of 6 symbols that decide nothing" in answer.sentence
    numbers = QUESTION.headline(answer).set_index(["variable", "of"])["value"]
    for model in ("trained", "untrained"):
        there = rows[(rows["model"] == model) & (rows["symbol"] == "muis")]["effect"].item()
        assert numbers[model, "leans on muis"] == there
    model, effects = run.model(), []
    words = run.language.sample(
        np.random.default_rng(5), 300, run.language.lengths(8), split="test"
    ).words
    for ids, length in zip(words.ids, words.lengths, strict=True):
        word = [
            "kat" if symbol == "muis" else symbol
            for symbol in run.language.vocabulary.decode(ids[:length])
        ]
        free = [place for place, symbol in enumerate(word) if symbol in inert]
        if free:
            there = [*word[: free[0]], "muis", *word[free[0] + 1 :]]
            both = run.language.vocabulary.words([tuple(there), tuple(word)])
            effects.append(np.subtract(*probabilities(model, both)))
    assert own.loc["muis", "effect"] == pytest.approx(np.mean(effects), abs=0.1)


def test_a_language_whose_symbols_all_count_leans_on_nothing(run: Run) -> None:
    answer = analyse(run, Accuracy(max_n=1, all_words=0))
    assert answer.findings["leans_on"] == []
    assert leaning(answer) is None


def test_how_long_all_words_are(run: Run) -> None:
    """As long as 100,000 words allow, and no longer than the words that are tested anyway."""
    for options, longest in (
        (Accuracy(max_n=2), 4),
        (Accuracy(max_n=100), 15),
        (Accuracy(max_n=2, all_words=7), 7),
        (Accuracy(max_n=2, all_words=0), 0),
    ):
        tested = max(accuracy._chosen_lengths(run, options))
        assert accuracy._reach_of_all_words(run, options, tested) == longest
    left_out = fresh_answer(run, QUESTION, Accuracy(max_n=1, all_words=0))
    assert left_out.findings["all_words"] is None
    assert every_word(left_out) is None
    assert "Of all" not in left_out.sentence


def test_more_words_than_anybody_waits_for_are_refused(run: Run) -> None:
    with pytest.raises(UserError, match=r"^there are more than 20,000,000 words of 1 to 24 symbo"):
        analyse(run, Accuracy(max_n=1, all_words=24))


def test_a_corpus_does_not_know_all_words(tmp_path: Path) -> None:
    lines = tmp_path / "lines.tsv"
    rows = [f"{'in' if n % 2 else 'out'}\t{'x ' * (1 + n % 2)}w{n}\n" for n in range(60)]
    lines.write_text("".join(rows))
    config = tiny_config(language="lines", objective="verdict", steps=2, evaluate_every=2)
    made = Run.create(tmp_path / "run", config, lines)
    train(made, "cpu")
    assert analyse(made, Accuracy()).findings["all_words"] is None
    with pytest.raises(UserError, match=r"^which of all words belong to lines is not known"):
        analyse(made, Accuracy(all_words=3))


@pytest.mark.parametrize(
    ("exact", "reach", "said"),
    [
        ({1: 1, 2: 1, 3: 1}, 3, "Exact at all 3 sizes tested, 1 to 3."),
        ({450: 1, 451: 1}, 451, "Exact at all 2 sizes tested, 450 to 451"),
        ({450: 0.5, 451: 1}, 0, "Not exact at size 450, the smallest size tested"),
        ({450: 0.0}, 0, "Not exact at size 450, the only size tested"),
        ({7: 1}, 7, "Exact at size 7, the only size tested"),
        ({2: 1, 9: 0.9, 11: 1}, 2, "Exact at 2, and no longer at 9; 3 sizes were tested, 2 to 11"),
        ({1: 1, 5: 1, 9: 0}, 5, "Exact at the 2 sizes from 1 to 5, and no longer at 9; 3 sizes"),
    ],
)
def test_sizes_that_were_not_tested_are_not_spoken_of(
    exact: dict[int, float], reach: int, said: str
) -> None:
    rows = of_shares(dict.fromkeys(exact, 1.0), 0.0, exact=list(exact.values()))
    assert exact_to(rows.table[rows.table["model"] == "trained"]) == reach
    assert QUESTION.claims(rows)[0].notes[0].startswith(said)


def of_shares(shares: dict[int, float], untrained: float, exact: object = pd.NA) -> Answer:
    """An answer made by hand: of a network and its control, at sizes of 100 words each."""
    n = pd.array(list(shares), dtype="Int64")
    table = pd.DataFrame({"n": n, "length": 2 * n, "count": 128, "different": 100, "exact": exact})
    table = table.assign(member_words=64, members=1.0, others=1.0, low=0.0)
    own, other = list(shares.values()), [untrained] * len(shares)
    both = [table.assign(model="trained", recognition=own)]
    both.append(table.assign(model="untrained", recognition=other))
    table = pd.concat(both, ignore_index=True)
    found = {"window": 2, "exact_to": exact_to(table[table["model"] == "trained"])}
    return Answer(table, findings=found | dict.fromkeys(("selection", "all_words", "leans_on")))


@pytest.mark.parametrize(
    ("share", "untrained", "grade"),
    [
        (1.0, 0.5, "holds"),
        (0.9, 0.5, "fragile"),
        (0.9, 0.89, "no better than its controls"),
        (0.55, 0.1, "no better than its controls"),  # always the same answer is right in a half
        (0.75, 0.1, "no better than its controls"),  # a rule drawn by a coin may be right so often
    ],
)
def test_right_verdicts_are_held_against_their_controls(
    share: float, untrained: float, grade: str
) -> None:
    inside, beyond = QUESTION.claims(of_shares({1: share, 2: share, 3: 0.5}, untrained))
    assert (inside.grade, inside.value, inside.n) == (grade, pytest.approx(share), 200)
    assert (inside.low, inside.high) == wilson(round(200 * share), 200)
    assert inside.controls == {
        "the untrained network": pytest.approx(untrained),
        "always the same answer": 0.5,
        "half way from there to all right": 0.75,
    }
    assert (beyond.grade, beyond.value) == ("no better than its controls", 0.5)
    low, high = wilson(50, 100, 1 - 0.05 / 3)
    worst = f"is length 6: 50.0% [{low:.1%}, {high:.1%}] of 128 words, 100 different (Wilson"
    assert worst in inside.sentence


def test_the_constant_answer_is_that_of_the_words_that_were_asked() -> None:
    """A corpus may have nine lines in ten outside."""
    answer = of_shares({1: 0.95, 2: 0.95}, 0.5)
    answer.table["count"], answer.table["member_words"] = 100, 10
    (claim,) = QUESTION.claims(answer)
    assert claim.controls["always the same answer"] == 0.9
    assert claim.grade == "no better than its controls"


def test_a_length_of_several_sizes_is_asked_once(tmp_path: Path) -> None:
    config = tiny_config(language="halting", max_n=8)
    run = Run.create(tmp_path / "halting", config)
    lengths = list(_chosen_lengths(run, Accuracy()))
    assert lengths == sorted(set(lengths))
    assert len(lengths) < 16


def test_a_list_of_runs_does_not_name_sizes_below_chosen_lengths(run: Run) -> None:
    def listed() -> pd.DataFrame:
        return runs_of(run.path.parent).set_index("run")["exact_to"]

    chosen = ask(run, "accuracy", Accuracy(lengths="8:10", count=4, all_words=0))[0]
    assert listed().isna().all()
    assert (
        QUESTION.headline(chosen)
        .set_index(["of", "variable"])["value"]
        .loc["exact to size"]
        .isna()
        .all()
    )
    usual = ask(run, "accuracy", Accuracy(max_n=2, count=4, all_words=0))[0]
    assert listed().tolist() == [usual.findings["exact_to"]]
    assert (
        QUESTION.headline(usual)
        .set_index(["of", "variable"])["value"]
        .loc["exact to size"]
        .notna()
        .all()
    )


@pytest.mark.parametrize("kind", ["labelled", "pairs"])
def test_the_interval_of_a_corpus_is_over_its_lines(kind: str, tmp_path: Path) -> None:
    """Ten lines, drawn sixty-four times, gave an interval of sixty-four words."""
    words = [" ".join(word) for n in (3, 4) for word in product("abc", repeat=n)]
    lines = [(("A", "B")["aa" in word.replace(" ", "")], word) for word in words]
    objective = "verdict"
    if kind == "pairs":
        lines, objective = [(word, word) for word in words], "sequence-to-sequence"
    file = tmp_path / "lines.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in lines), encoding="utf-8")
    config = tiny_config(language="lines", objective=objective, max_n=2)
    run = Run.create(tmp_path / "run", config, file)
    train(run, "cpu")
    answer = fresh_answer(run, QUESTION, Accuracy())
    rows = answer.table[answer.table["model"] == "trained"]
    language = run.language
    assert isinstance(language, LabelledCorpus | PairCorpus)
    for row in rows.to_dict("records"):
        drawn = balanced_words(language, row["length"], 64, 0)
        assert drawn is not None
        assert row["different"] == row["count"] == len(drawn.labels)
        assert len(np.unique(drawn.words.ids, axis=0)) == row["count"]
        low, high = wilson(round(row["recognition"] * row["count"]), row["count"])
        assert (row["low"], row["high"]) == (low, high)
    (claim,) = answer.claims  # all lines are taught, and none lies beyond a window
    assert "in the training window" in claim.finding
    assert claim.n == rows["count"].sum()
    lengths = {"labelled": (3, 4), "pairs": (7, 9)}[kind]
    assert set(rows["length"]) == set(lengths)
    assert run.window == "lines of {} to {} symbols".format(*lengths)
