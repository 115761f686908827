"""The heads' analysis on a run of a second: what its numbers are means of, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.answers import Answer
from analyses.questions.parts import heads
from analyses.questions.trials import heads_apart
from analyses.questions.trials.heads_apart import DISTANCE, SHARED, SPAN
from analyses.words import ANALYSIS_SEED, WordTensors, changed_words, sample_window
from interp.causal.ablation import ablate
from interp.causal.metrics import logit_at
from interp.heads.apart import SIDES, distances, shared_directions
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.types import TYPES, head_types
from models.errors import UserError
from models.languages import END_ID
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train

OPTIONS = heads.Options(words=12, members=3)
MODEL = ModelConfig(n_layers=2, n_heads=2, d_model=8, d_mlp=12)


@pytest.fixture(scope="module", params=["decoder", "encoder"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    mask = {"decoder": "causal", "encoder": "bidirectional"}[request.param]
    model = ModelConfig(**{**MODEL.__dict__, "mask": mask})
    objective = "verdict" if model.sees_ahead else "next-symbols"
    config = tiny_config(model=model, objective=objective, steps=3, max_n=6)
    made = Run.create(tmp_path_factory.mktemp("heads") / request.param, config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return heads.analyse(run, OPTIONS).table


@pytest.mark.slow
def test_every_measure_of_both_models(run: Run, table: pd.DataFrame) -> None:
    measures = [
        *(
            f"{kind}, {method} ablation"
            for method in ("mean", "zero", "resample")
            for kind in ("accuracy lost", "lost together", "beyond the sum")
        ),
        *("direct logit, members", "direct logit, others"),
        *(f"attention, {name}" for name in TYPES),
        DISTANCE,
        *(f"{SHARED}, {side}" for side in SIDES.values()),
        heads.LOOK,
    ]
    for _, rows in table.groupby("model"):
        assert rows["measure"].unique().tolist() == measures
    assert table["model"].unique().tolist() == ["trained", "untrained"]
    given = table.dropna(subset="low")  # of one word alone there is no interval
    assert (given["low"] <= given["value"] + 1e-9).all()
    assert (given["value"] <= given["high"] + 1e-9).all()
    assert heads.analyse(run, OPTIONS).table.equals(table)


def scored(words: WordTensors) -> np.ndarray:
    """Which words do not choose, by hand: two of three different words."""
    spelt = [tuple(row) for row in words.tokens.tolist()]
    order = {word: place for place, word in enumerate(sorted(set(spelt)))}
    place = np.random.default_rng(ANALYSIS_SEED).permutation(len(order))
    return np.array([place[order[word]] % 3 > 0 for word in spelt])


@pytest.mark.parametrize("method", ["mean", "zero", "resample"])
def test_accuracy_lost_is_a_mean_over_words(run: Run, table: pd.DataFrame, method: str) -> None:
    sample = sample_window(run, 12, 0)
    words, model = WordTensors.of(sample.words), run.model()
    metric = logit_at(END_ID, model.verdict_positions(words.last))
    ablated = ablate(model, words.tokens, words.mask, metric, method)
    rows = table.query(f"model == 'trained' and measure == 'accuracy lost, {method} ablation'")
    for row in rows.itertuples():
        sides: dict[bool, list[float]] = {True: [], False: []}
        for one in ablated.query(f"layer == {row.layer} and head == {row.head}").itertuples():
            truth = sample.labels[one.word]
            lost = int((one.before > 0) == truth) - int((one.after > 0) == truth)
            side = sides[bool(scored(words)[one.word])]
            side.append(np.nan if np.isnan(one.after) else lost)
        assert row.value == pytest.approx(np.nanmean(sides[True]))
        assert row.choice == pytest.approx(np.nanmean(sides[False]))
        missing = np.isnan(sides[True]).sum()
        assert (row.words, row.undefined) == (len(sides[True]) - missing, missing)
        spelt = words.tokens[scored(words)][~np.isnan(sides[True])]
        assert row.different == len(spelt.unique(dim=0))
    assert len(rows) == 4


@pytest.mark.parametrize("model", ["trained", "untrained"])
def test_types_are_means_over_the_words_that_have_them(
    run: Run, table: pd.DataFrame, model: str
) -> None:
    words = WordTensors.of(sample_window(run, 12, 0).words)
    viewed = run.model() if model == "trained" else run.untrained()
    types = head_types(viewed, words.tokens, words.mask)
    for name in TYPES:
        rows = table[(table["model"] == model) & (table["measure"] == f"attention, {name}")]
        for row in rows.itertuples():
            of_head = types.query(f"layer == {row.layer} and head == {row.head} and type == @name")
            of_head = of_head[scored(words)[of_head["word"]]]
            assert row.value == pytest.approx(of_head["score"].dropna().mean())
            assert row.uniform == pytest.approx(of_head["uniform"].dropna().mean())
            assert row.share == pytest.approx(of_head["share"].dropna().mean(), nan_ok=True)
            assert row.undefined == of_head["score"].isna().sum()
    others = ~table["measure"].str.startswith(("attention, ", DISTANCE))
    assert table[others][["uniform", "share"]].isna().all(axis=None)


@pytest.mark.parametrize("model", ["trained", "untrained"])
def test_how_far_heads_are_apart_is_told_of_each(run: Run, table: pd.DataFrame, model: str) -> None:
    words = WordTensors.of(sample_window(run, 12, 0).words)
    viewed = run.model() if model == "trained" else run.untrained()
    far, pairs = distances(viewed, words.tokens, words.mask), shared_directions(viewed)
    own = table[table["model"] == model]
    for row in own[own["measure"] == DISTANCE].itertuples():
        of_head = far.query(f"layer == {row.layer} and head == {row.head}")
        of_head = of_head[scored(words)[of_head["word"]]]
        assert row.value == pytest.approx(of_head["distance"].mean())
        assert row.uniform == pytest.approx(of_head["even"].mean())
    for side in SIDES.values():  # of two heads each shares as much as the other
        found = own[own["measure"] == f"{SHARED}, {side}"]
        assert found["part"].tolist() == ["L0H0", "L0H1", "L1H0", "L1H1"]
        both = pairs[pairs["side"] == side]["shared"].repeat(2)
        assert found["value"].tolist() == pytest.approx(both.tolist())


@pytest.mark.parametrize("model", ["trained", "untrained"])
def test_attention_is_held_against_the_effect_on_the_verdict(
    run: Run, table: pd.DataFrame, model: str
) -> None:
    viewed = run.model() if model == "trained" else run.untrained()
    found: dict[str, list[float]] = {}
    place = np.random.default_rng(ANALYSIS_SEED).permutation(3)
    for index, (word, changed) in enumerate(changed_words(run, 3, 0)):
        if place[index] % 3 == 0:  # it chooses
            continue
        at = 0 if run.config.model.sees_ahead else len(word) - 1
        both = attention_and_effect(viewed, word, changed, logit_at(END_ID, at), at)
        for part, rows in both.groupby("part"):
            value = rank_correlation(rows["attention"].to_numpy(), rows["effect"].to_numpy())
            found.setdefault(part, []).append(value)
    rows = table[(table["model"] == model) & (table["measure"] == heads.LOOK)]
    assert rows["part"].tolist() == ["L0H0", "L0H1", "L1H0", "L1H1", "rollout", "flow"]
    for row in rows.itertuples():
        assert row.value == pytest.approx(np.nanmean(found[row.part]))
        assert row.undefined == np.isnan(found[row.part]).sum()
        assert row.words + row.undefined == 2


def test_every_symbol_is_changed_in_turn(run: Run) -> None:
    pairs = changed_words(run, 40, 0)
    assert len({tuple(word.tolist()) for word, _ in pairs}) == len(pairs) == 5  # n = 2 to 6
    for word, changed in pairs:
        symbols = run.language.vocabulary.decode(word[1:].numpy())
        assert run.language.contains(symbols)
        assert 4 <= len(symbols) <= 20
        differs = changed != word
        assert torch.equal(differs[:, 1:], torch.eye(len(symbols), dtype=torch.bool))
        assert not differs[:, 0].any()
        assert set(changed[:, 1:].unique().tolist()) == {2, 3}


def test_a_change_may_be_to_any_other_symbol(tmp_path: object) -> None:
    run = Run.create(
        tmp_path / "run", tiny_config(language="dieren", max_n=20, objective="verdict")
    )
    changes = {
        (int(word[i + 1]), int(row[i + 1]))
        for word, changed in changed_words(run, 80, 1)
        for i, row in enumerate(changed)
    }
    size = len(run.language.vocabulary.symbols)
    assert len(changes) == size * (size - 1)
    assert all(old != new for old, new in changes)


@pytest.mark.slow
def test_a_window_of_short_words_has_nothing_to_hold_against(tmp_path: object) -> None:
    run = Run.create(tmp_path / "run", tiny_config(max_n=1))  # a b alone
    train(run, "cpu")
    assert changed_words(run, 3, 0) == []
    result = heads.analyse(run, OPTIONS)
    assert heads.LOOK not in set(result.table["measure"])
    assert not any(
        "look where it matters" in claim.sentence for claim in heads.QUESTION.claims(result)
    )
    assert heads.chart(result).to_dict()["$schema"]


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_one_head_in_a_layer_has_no_pair_there(tmp_path: Path, layers: int) -> None:
    model = ModelConfig(**{**MODEL.__dict__, "n_layers": layers, "n_heads": 1})
    run = Run.create(tmp_path / "run", tiny_config(model=model, steps=1, max_n=3))
    train(run, "cpu")
    result = heads.analyse(run, OPTIONS)
    measures = set(result.table["measure"])
    assert ("beyond the sum, mean ablation" in measures) == (layers == 2)
    assert not any(measure.startswith(SHARED) for measure in measures)
    assert result.findings["pairs"] == []
    assert heads.QUESTION.claims(result)
    values = heads.QUESTION.headline(result).set_index("of")["value"]
    assert values.filter(like="of pairs").isna().all() == (layers == 1)


def rows(measure: str, model: str, **values: tuple[float, ...]) -> pd.DataFrame:
    """Rows of a table: part = (choice, value, p, uniform). A pair's name has "_" for " + "."""
    parts = [part.replace("_", " + ") for part in values]
    choice, value, corrected, uniform = zip(*values.values(), strict=True)
    numbers = [int(part[-1]) if len(part) == 4 and part[0] == "L" else -1 for part in parts]
    return pd.DataFrame(
        {
            "model": model,
            "measure": measure,
            "part": parts,
            "layer": [min(number, 0) for number in numbers],
            "head": numbers,
            "choice": choice,
            "value": value,
            "low": np.array(value) - 0.1,
            "high": np.array(value) + 0.1,
            "corrected": corrected,
            "uniform": uniform,
            "share": 0.4,
            "words": 20,
            "different": 10,
            "undefined": 1,
        }
    )


def made_up() -> pd.DataFrame:
    """Two heads. By resampling both are needed, by their means neither alone but both together."""
    nan = np.nan
    parts = []
    for model in ("trained", "untrained"):
        low = {"L0H0": (0.1, 0.3, 0.2, nan), "L0H1": (0.2, 0.0, 1.0, nan)}
        high = {"L0H0": (0.5, 0.5, 0.01, nan), "L0H1": (0.4, 0.5, 0.05, nan)}
        for method, alone, pair in (
            ("mean", low, {"lost together": 0.5, "beyond the sum": 0.2}),
            ("zero", low, {"lost together": 0.3, "beyond the sum": 0.0}),
            ("resample", high, {"lost together": 0.5, "beyond the sum": -0.5}),
        ):
            parts.append(rows(f"accuracy lost, {method} ablation", model, **alone))
            for kind, value in pair.items():
                p = 0.04 if value else 0.9
                name = f"{kind}, {method} ablation"
                parts.append(rows(name, model, L0H0_L0H1=(0.0, value, p, nan)))
    for name in TYPES[:-1]:
        typed, still = f"attention, {name}", (0.1, 0.1, nan, 0.2)
        second = (0.9 if name == "BOS" else 0.2, 0.6, nan, 0.2)
        parts.append(rows(typed, "trained", L0H0=(0.7, 0.3, nan, 0.2), L0H1=second))
        parts.append(rows(typed, "untrained", L0H0=(0.6, 0.1, nan, 0.2), L0H1=still))
    # Of the trained heads the second looks further by the words that choose.
    for model, second in (("trained", 5.0), ("untrained", 1.5)):
        two = {"L0H0": (2.0, 3.0, nan, 3.0), "L0H1": (second, 7.0, nan, 3.0)}
        parts.append(rows(DISTANCE, model, **two))
        share = {"L0H0": (nan, 0.25, nan, nan), "L0H1": (nan, 0.25, nan, nan)}
        parts.append(rows(f"{SHARED}, keys", model, **share))
    looks = {"L0H0": (0.9, 0.2, 0.3, nan), "L0H1": (0.8, 0.9, 0.01, nan)}
    parts.append(rows(heads.LOOK, "trained", **looks, flow=(0.5, 0.5, 0.0, nan)))
    looks = {"L0H0": (0.3, 0.5, 0.02, nan), "L0H1": (0.9, 0.8, 0.05, nan)}
    parts.append(rows(heads.LOOK, "untrained", **looks))
    return pd.concat(parts, ignore_index=True)


def pairs_of(first: float, second: float, together: float) -> list[dict[str, Any]]:
    """What is told of two heads that lose so much alone and together, by zero ablation."""
    nan, parts = np.nan, []
    for method in heads.METHODS:
        named = f"{{}}, {method} ablation".format
        lost = (first, second, together) if method == "zero" else (0.0, 0.0, 0.0)
        alone = {f"L0H{head}": (0.0, lost[head], nan, nan) for head in (0, 1)}
        beyond = lost[2] - lost[0] - lost[1]
        p = 0.01 if abs(beyond) > 0.05 else 0.9
        parts.append(rows(named(heads.LOST), "trained", **alone))
        parts.append(rows(named(heads.TOGETHER), "trained", L0H0_L0H1=(0.0, lost[2], nan, nan)))
        parts.append(rows(named(heads.BEYOND), "trained", L0H0_L0H1=(0.0, beyond, p, nan)))
    return heads._pairs(pd.concat(parts, ignore_index=True))


def test_a_pair_at_the_ceiling_is_no_conjunction() -> None:
    """Nothing can be lost twice: less than the sum is told where both lose surely more than one."""
    assert pairs_of(0.515, 0.515, 0.515) == []
    assert pairs_of(0.5, 0.3, 0.6) == []  # the intervals of 0.5 and 0.6 meet
    (both,) = pairs_of(0.5, 0.4, 0.75)
    assert (both["ablation"], both["together"], both["first"], both["second"]) == (
        *("zero", 0.75, 0.5, 0.4),
    )
    assert both["beyond"] == pytest.approx(-0.15)
    (either,) = pairs_of(0.0, 0.0, 0.5)
    assert either["beyond"] == 0.5


def test_claims_by_hand() -> None:
    """The head that other words chose loses nothing; no pair is chosen; BOS is the type."""
    alone, typed = heads.QUESTION.claims(Answer(made_up()))
    assert alone.sentence == (
        "Not proven: without L0H1 (mean ablation) 0.0% [-10.0%, 10.0%] of the verdicts are lost; "
        "other words chose it: here L0H0 costs more, 30.0%, on 10 different words, which did not "
        "choose it (bootstrap over words); what was chosen so in the untrained network 0.0%, what "
        "counts 5.0%. By zero ablation it is not shown. Heads that cost more than 5% (p <= 0.05, "
        "Student's test over different words, Holm's correction): by mean ablation none; by zero "
        "ablation none; by resample ablation L0H0, L0H1. 1 of 2 heads look where it matters (L0H1),"
        " in the untrained network 2: attention and its effect have a rank correlation above 0.3 "
        "(the same test, over 20 words)."
    )
    assert typed.sentence == (
        "Not proven: L0H1 pays 60.0% [50.0%, 70.0%] of its attention to BOS, where there is one, "
        "on 10 different words, which did not choose it (bootstrap over words); even attention "
        "20.0%, the untrained network's head for this 10.0%, a clear type 50.0%. That is 40% of "
        "all its attention. It need not matter."
    )


def test_one_word_chose_the_head_that_it_judges() -> None:
    row = {"value": 0.5, "low": 0.1, "high": 0.9}
    one, two = (
        heads._judged(pd.Series(row | {"different": n}), "{}", {}, [], []).sentence for n in (1, 2)
    )
    assert "on 1 different word (" in one
    assert "on 2 different words, which did not choose it (" in two


def test_the_headline_reads_the_head_that_other_words_chose() -> None:
    """The largest value is another head's, of the untrained model too."""
    table = made_up()
    found = heads.QUESTION.headline(Answer(table, "", {})).set_index(["variable", "of"])["value"]
    trained, untrained = found["trained"], found["untrained"]
    assert trained["most lost by a head, mean ablation"] == 0.0
    assert trained["share of heads needed, mean ablation"] == 0
    assert trained["share of heads needed, resample ablation"] == 1
    assert trained["share of pairs that lose more than the sum, mean ablation"] == 1
    assert trained["share of pairs that lose less than the sum, mean ablation"] == 0
    assert trained["share of pairs that lose less than the sum, resample ablation"] == 1
    assert trained["BOS beyond even attention, best head"] == pytest.approx(0.4)
    assert trained["induction beyond even attention, best head"] == pytest.approx(0.1)
    assert (trained[SPAN], untrained[SPAN]) == (4.0, -4.0)
    assert trained[f"{SHARED}, read"] == 0.25
    assert np.isnan(trained[f"{SHARED}, written"])
    assert trained[f"{heads.LOOK}, best head"] == 0.2
    assert trained[f"{heads.LOOK}, share of heads above 0.3"] == 0.5
    assert untrained[f"{heads.LOOK}, best head"] == 0.8


def test_what_is_compared_over_seeds_is_little() -> None:
    """Ten seeds can pass Holm's correction for 25 numbers at the most: 25 * 2 / 2^10 < 0.05."""
    sides = {"queries": 0.2, "keys": 0.4, "values": 0.6, "outputs": 0.9}
    found = {SPAN: 1.5} | {f"{SHARED}, {side}": value for side, value in sides.items()}
    rows = heads_apart.compared(found)
    assert rows == pytest.approx({SPAN: 1.5, f"{SHARED}, read": 0.4, f"{SHARED}, written": 0.9})
    alone = heads_apart.compared({SPAN: 1.5, f"{SHARED}, keys": 0.4})
    assert alone[f"{SHARED}, read"] == 0.4
    names = heads.QUESTION.headline(Answer(made_up()))["of"].unique()
    assert len(names) == 26 - 1  # rollout, which the table lacks


@pytest.mark.parametrize("options", [{"words": 0}, {"members": 0}])
def test_no_words_is_a_readable_mistake(trained: Run, options: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"^--(words|members) is 0: it must be at least 1$"):
        heads.analyse(trained, heads.Options(**options))
