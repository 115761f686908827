"""Disfluent words: what is said, and that its label is that of what was meant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config

from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, language
from models.languages.disfluencies import (
    KINDS,
    Disfluency,
    disfluent,
    fillers_of,
    said,
    said_and_meant,
    with_labels,
)
from models.runs.run import Run, run_name
from models.training.batches import Batches, draw, some_words
from models.training.loop import train
from models.training.trained_words import TrainedWords

LANGUAGE = language("lt2")  # over a, b, c; all decide
FILLERS = np.array([FIRST_SYMBOL_ID + 2])  # c


def spoken(
    word: str, rate: float, kind: Disfluency, longest: int = 99, times: int = 200
) -> Counter[str]:
    """What is heard of a word that is said many times."""
    words = LANGUAGE.vocabulary.words([list(word)] * times)
    heard = disfluent(words, np.random.default_rng(1), rate, FILLERS, longest, kind)
    rows = zip(heard.ids, heard.lengths, strict=True)
    return Counter("".join(LANGUAGE.vocabulary.decode(row[:n])) for row, n in rows)


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("fillers", {"cacbcacb"}),
        ("repetitions", {"aabbaabb"}),
        # after the third and the fourth symbol, the last two or three are said again
        ("restarts", {f"aabab{x}{y}" for x in ("aba", "aaba") for y in ("bab", "bbab")}),
        ("dropped", {"b"}),
        ("swapped", {"baba"}),
    ],
)
def test_what_happens_at_every_symbol(kind: Disfluency, heard: set[str]) -> None:
    assert set(spoken("abab", 1.0, kind)) == heard


@pytest.mark.parametrize("kind", KINDS)
def test_it_happens_at_its_share_of_the_symbols(kind: Disfluency) -> None:
    """At a word's first symbol, by the binomial distribution; five deviations."""
    word, other = {"swapped": ("ab", "ba"), "dropped": ("ab", "b"), "fillers": ("a", "ca")}.get(
        kind, ("a", "aa")
    )
    stumbled = spoken(word, 0.3, kind, times=4000)[other]
    assert abs(stumbled - 4000 * 0.3) < 5 * (4000 * 0.3 * 0.7) ** 0.5


def test_all_five_are_as_likely() -> None:
    """At the first symbol of ab, a filler gives ca..., what is said again aa..., a swap ba."""
    heard = list(spoken("ab", 1.0, "all", times=5000).elements())
    begins = Counter(word[:2] for word in heard)
    for count, share in ((begins["ca"], 0.2), (begins["aa"], 0.4), (heard.count("ba"), 0.2)):
        assert abs(count - 5000 * share) < 5 * (5000 * share * (1 - share)) ** 0.5


def test_without_disfluencies_the_words_stay() -> None:
    assert spoken("abcab", 0.0, "all") == {"abcab": 200}


@pytest.mark.parametrize("kind", ["all", *KINDS])
def test_no_word_is_empty_or_too_long(kind: Disfluency) -> None:
    for word in ("a", "ab", "abcabc"):
        assert {1 <= len(each) <= 6 for each in spoken(word, 0.9, kind, longest=6)} == {True}


def test_fillers_decide_nothing() -> None:
    """Where some symbols decide nothing. Then a filler turns no label around."""
    dieren = language("dieren")
    assert set(dieren.vocabulary.decode(fillers_of(dieren))).isdisjoint(("leeuw", "olifant"))
    assert set(fillers_of(LANGUAGE)) == {2, 3, 4}
    sample = dieren.sample(np.random.default_rng(0), 300, range(1, 20))
    heard = disfluent(
        sample.words, np.random.default_rng(1), 0.5, fillers_of(dieren), 40, "fillers"
    )
    assert (dieren.labels(heard) == sample.labels).all()
    assert (heard.lengths > sample.words.lengths).mean() > 0.9


# -- training -------------------------------------------------------------------------------------

SPOKEN: dict[str, Any] = {
    "language": "dieren",
    "objective": "verdict",
    "max_n": 12,
    "disfluent": 0.4,
}


def test_the_labels_are_those_of_the_words_that_were_meant() -> None:
    known, config = language("dieren"), tiny_config(**SPOKEN)
    meant, _ = draw(tiny_config(**{**SPOKEN, "disfluent": 0.0}), known, 3)
    heard, labels = said_and_meant(draw(config, known, 3)[0], known)
    assert (labels == known.labels(meant)).all()
    assert 0.02 < (known.labels(heard) != labels).mean() < 0.5
    assert heard.lengths.max() <= 12
    unmarked = said_and_meant(meant, known)
    assert (unmarked[1] == known.labels(meant)).all()
    assert (said(meant, known.vocabulary).ids == meant.ids).all()


def test_a_word_may_have_both_labels() -> None:
    words = LANGUAGE.vocabulary.words([["a", "b"], ["a", "b"], ["c"]])
    labels = np.array([False, True, True])
    heard, told = said_and_meant(with_labels(words, labels, LANGUAGE.vocabulary), LANGUAGE)
    assert (told == labels).all()
    assert (heard.ids == words.ids).all()


@pytest.mark.parametrize("lines", [0, 30])
def test_a_step_teaches_them(lines: int) -> None:
    """Its groups hold every word that is drawn, as often as it is drawn, with the label meant."""
    known, config = language("dieren"), tiny_config(**SPOKEN, lines=lines)
    words, _ = draw(config, known, 0)
    heard, labels = said_and_meant(words[: config.batch_size], known)
    expected = Counter(
        (tuple(row[:n]), bool(label))
        for row, n, label in zip(heard.ids.tolist(), heard.lengths, labels, strict=True)
    )
    found: Counter[Any] = Counter()
    for group in Batches(config, known, torch.device("cpu"))[0].groups:
        batch = group.batch
        for tokens, target, weight in zip(batch.tokens, batch.target, batch.weight, strict=True):
            (at,) = weight.sum(dim=1).nonzero().ravel().tolist()
            word = tuple(tokens[1 : at + 1].tolist())
            found[word, bool(target[at].any())] += int(weight.sum())
    assert found == expected


def test_few_lines_are_disfluent_once() -> None:
    known, config = language("dieren"), tiny_config(**SPOKEN, lines=30)
    pool = {row.tobytes() for row in some_words(config, known).ids}
    assert len(pool) == 30
    drawn, _ = draw(config, known, 5)
    assert {row.tobytes() for row in drawn.ids} == pool


def test_what_was_heard_is_not_fresh() -> None:
    known, config = language("dieren"), tiny_config(**SPOKEN)
    trained = TrainedWords(config, known, 2)
    heard = said(draw(config, known, 0)[0][: 2 * config.batch_size], known.vocabulary)
    assert trained.hold(heard).all()


def test_they_are_a_run_like_any_other(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(**SPOKEN, steps=3))
    train(run, "cpu")
    assert run.step == 3
    assert run_name(run.config) == "dieren-disfluent-all-0.4-s0"


def test_lines_of_a_corpus_can_be_disfluent(tmp_path: Path) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text("".join(f"{'xy'[n % 2]}\ta b{n % 20} c{n % 2}\n" for n in range(60)))
    changes = {**SPOKEN, "language": "lines", "steps": 3}
    train(Run.create(tmp_path / "run", tiny_config(**changes), corpus=path), "cpu")


@pytest.mark.parametrize(
    "changes", [{"objective": "next-symbols"}, {"vocabulary": "bpe:4"}], ids=str
)
def test_where_only_the_label_is_known_it_is_all_that_is_taught(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^a disfluent word keeps [^\n]*--disfluent 0[^\n]*$"):
        tiny_config(**{**SPOKEN, **changes})
    with pytest.raises(UserError, match=r"must be at most 0\.9"):
        tiny_config(**{**SPOKEN, "disfluent": 1.0})
