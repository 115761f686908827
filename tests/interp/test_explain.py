"""Every method through one interface: closed forms, what a case offers, what an answer costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from conftest import SMALL, stir

from interp.explanations.case import Case
from interp.explanations.explain import explain, judge, stability
from interp.explanations.games import EXACT_LIMIT, Game, exact_shapley
from interp.explanations.interventions import leave_one_out, substitution
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)
from interp.explanations.methods import COMPLETE, EXACT, METHODS, offered
from interp.explanations.saliency import STEPS
from interp.explanations.scores import HIDING, LOWER, METRICS, RATIONALE, any_order, chance
from interp.heads.attention import attention
from interp.heads.rollout_and_flow import rollout
from interp.statistics import bootstrap_mean
from models.base import LanguageModel, build
from models.config import ModelConfig
from models.languages import END_ID, Vocabulary

FAMILY = {
    kind: {name for name, method in METHODS.items() if method.family == kind}
    for kind in ("LIME and SHAP", "attention", "gradient", "control")
}
KINDS = {
    "decoder": {},
    "encoder": {"mask": "bidirectional", "positions": "learned"},
    "attention only": {"mlp": "none"},
    "lstm": {"architecture": "lstm"},
    "cnn": {"architecture": "cnn"},
    "ngram": {"architecture": "ngram"},
}


def make(kind: str) -> LanguageModel:
    config = ModelConfig(**{**SMALL.__dict__, **KINDS[kind]})
    return stir(build(config, Vocabulary(("a", "b", "c")), 0)).eval()


def case(
    model: LanguageModel, size: int = 5, draws: int = 3, seed: int = 0, **changes: object
) -> Case:
    """The verdict on some word of a, b and c; the language has equal numbers of a and b."""
    rng = np.random.default_rng([size, seed])
    word, hidden = rng.integers(2, 5, size), rng.integers(2, 5, (draws, size))
    at = int(model.verdict_positions(torch.tensor([size])))

    @torch.no_grad()
    def score(ids: np.ndarray) -> np.ndarray:
        tokens = torch.as_tensor(np.pad(ids, ((0, 0), (1, 0))))
        return model(tokens)[:, at, END_ID].sigmoid().double().numpy()

    def balanced(ids: np.ndarray) -> np.ndarray:
        return ((ids == 2).sum(1) == (ids == 3).sum(1)).astype(float)

    parts = {"truth": Game(balanced, word, hidden), "rationale": (0, 2), "samples": 64, **changes}
    return Case(Game(score, word, hidden), model, END_ID, at, np.arange(2, 5), **parts)


@pytest.fixture(scope="module")
def decoder() -> LanguageModel:
    return make("decoder")


# -- closed forms -------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_a_sum_every_method_finds_each_symbol_s_own(decoder: LanguageModel) -> None:
    """Its weight less the mean weight of what replaces it; substitution, its largest change."""
    weights = np.random.default_rng(0).normal(size=(6, 5)) / 20
    place = np.arange(6)
    known = case(decoder, size=6)
    played = known.game
    played.score = lambda words: 0.5 + weights[place, words].sum(axis=1)
    own = weights[place, played.word] - weights[place, played.replacements].mean(axis=0)
    for method in (kernel_shap, permutation_shap, partition_shap, shap_exact):
        assert method(played) == pytest.approx(own, abs=1e-9), method
    for answer in (exact_shapley(played), leave_one_out(played)):
        assert answer == pytest.approx(own, abs=1e-12)
    assert lime(played, samples=2000) == pytest.approx(own, abs=0.02 * np.abs(own).max())
    change = weights[place, played.word][:, None] - weights[:, 2:]
    expected = change[place, np.abs(change).argmax(axis=1)]
    assert substitution(known) == pytest.approx(expected, abs=1e-12)
    assert np.abs(own).max() > 0.02


def test_substitution_is_the_largest_change_of_a_loop(decoder: LanguageModel) -> None:
    known = case(decoder)
    found = substitution(known)
    for position, value in enumerate(found):
        changes = []
        for symbol in (2, 3, 4):
            other = known.game.word.copy()
            other[position] = symbol
            before, after = known.game.score(np.stack([known.game.word, other]))
            changes.append(before - after)
        assert value == pytest.approx(max(changes, key=abs), abs=1e-6)


# -- what a case offers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_s_kind_decides_what_is_offered(kind: str) -> None:
    missing = {
        "lstm": FAMILY["attention"],
        "cnn": FAMILY["attention"],
        "ngram": FAMILY["attention"] | FAMILY["gradient"],
    }.get(kind, set())
    known = case(make(kind))
    assert offered(known) == [name for name in METHODS if name not in missing]
    table = explain(known)
    assert list(table["method"].unique()) == offered(known)
    assert table["value"].notna().all()
    assert set(table.loc[table["method"] == "substitution", "calls"]) == {1 + 5 * 3}


@pytest.mark.slow
def test_what_is_not_known_is_not_offered(decoder: LanguageModel) -> None:
    everything = set(METHODS)
    assert set(offered(case(decoder, truth=None))) == everything - {"language"}
    assert set(offered(case(decoder, rationale=None))) == everything - {"oracle"}
    assert set(offered(case(decoder, rationale=()))) == everything
    assert set(offered(case(decoder, size=EXACT_LIMIT))) == everything
    long = case(decoder, size=EXACT_LIMIT + 1)
    assert set(offered(long)) == everything - set(EXACT)
    table = explain(long)
    assert len(table) == (EXACT_LIMIT + 1) * len(offered(long))
    judged = judge(long, table).set_index("method")
    assert judged["AUROC"].notna().all()
    assert judged[["comprehensiveness", "deletion"]].drop("chance").notna().all(axis=None)
    assert judged[["cosine to the model", "cosine to the language", "error"]].isna().all(axis=None)


# -- the table ----------------------------------------------------------------------------------


def test_an_answer_costs_the_words_that_were_scored(decoder: LanguageModel) -> None:
    known = case(decoder)
    size, draws, symbols = 5, 3, 3
    table = explain(known)
    calls = table.groupby("method")["calls"].agg(set).map(lambda one: one.pop())
    exactly = {
        "LIME": 64 * draws,
        "SHAP exact": 2**size * draws,
        "Shapley exact": 2**size * draws,
        "leave one out": (size + 1) * draws,
        "substitution": 1 + size * symbols,
        "gradient x input": 2,
        "SmoothGrad": 1 + 24,
        "integrated gradients": 1 + draws + STEPS * draws,
        **dict.fromkeys(FAMILY["attention"], 1),
        **dict.fromkeys(FAMILY["control"], 0),
    }
    assert calls[list(exactly)].to_dict() == exactly
    assert 2**size * draws <= calls["SHAP kernel"] <= 64 * draws
    for name in ("SHAP permutation", "SHAP partition"):
        assert 2 * size * draws < calls[name] <= 64 * draws
    assert 1 + 3 * draws <= calls["DeepLift"] <= 1 + 5 * draws
    assert known.game.calls == 0  # every method paid on its own
    assert not any(
        point._forward_hooks or point._forward_pre_hooks for point in decoder.hook_dict.values()
    )


def test_the_table_has_a_row_per_method_and_position(decoder: LanguageModel) -> None:
    known = case(decoder)
    table = explain(known, ["attention", "LIME", "integrated gradients", "DeepLift", "random"], 3)
    assert list(table.columns) == [
        *("method", "family", "position", "value", "calls", "seconds", "completeness")
    ]
    assert list(table["method"].unique())[:2] == ["attention", "LIME"]
    for name, rows in table.groupby("method"):
        assert rows["position"].tolist() == [0, 1, 2, 3, 4]
        assert rows["family"].unique().tolist() == [METHODS[name].family]
        assert (rows["seconds"] >= 0).all()
        assert rows["completeness"].notna().all() == (name in COMPLETE)
        assert rows["completeness"].isna().all() == (name not in COMPLETE)
    values = {name: rows["value"].to_numpy() for name, rows in table.groupby("method")}
    assert values["LIME"] == pytest.approx(lime(known.game, 64, 3))
    pattern = attention(decoder, known.word[None])[0][:, 0]
    expected = pattern[-1, :, -1, 1:].mean(dim=0).numpy()
    assert values["attention"] == pytest.approx(expected)
    turned = explain(known, ["rollout"])["value"].to_numpy()
    assert turned == pytest.approx(rollout(pattern)[-1, 1:].numpy())


@pytest.mark.slow
def test_each_seeded_method_and_no_other_hangs_on_the_seed(decoder: LanguageModel) -> None:
    known = case(decoder, size=9, samples=32)
    first, again, other = (explain(known, None, seed) for seed in (1, 1, 2))
    for name, method in METHODS.items():
        one, same, third = (
            t.loc[t["method"] == name, "value"].to_numpy() for t in (first, again, other)
        )
        assert one == pytest.approx(same, abs=0), name
        assert (one.tolist() != third.tolist()) == method.seeded, name


def test_signed_methods_alone_turn_with_the_verdict(decoder: LanguageModel) -> None:
    """One with values of both signs somewhere is signed; the others say how much."""
    table = explain(case(decoder, size=9))
    negative = table.groupby("method")["value"].min() < 0
    assert not negative[[name for name, method in METHODS.items() if not method.signed]].any()
    assert negative[list(FAMILY["gradient"] | FAMILY["LIME and SHAP"])].all()


def test_what_replaces_nothing_is_the_same_under_any_replacement(decoder: LanguageModel) -> None:
    one, other = case(decoder), case(decoder)
    other.game.replacements = (other.game.replacements - 1) % 3 + 2
    other.truth.replacements = other.game.replacements
    first, second = (explain(known).groupby("method")["value"].agg(list) for known in (one, other))
    for name, method in METHODS.items():
        assert (first[name] != second[name]) == method.replaces, name


@pytest.mark.parametrize("kind", ["decoder", "encoder", "ngram"])
def test_remembered_answers_are_fresh_ones(kind: str) -> None:
    known = case(make(kind), size=6)
    fresh = explain(known, remember=False)
    known.game.values()
    remembered = explain(known, remember=True)
    assert remembered["value"].to_numpy() == pytest.approx(fresh["value"].to_numpy(), abs=1e-5)
    assert remembered["calls"].tolist() == fresh["calls"].tolist()
    assert remembered["seconds"].isna().all()
    assert fresh["seconds"].notna().all()


def test_a_remembered_game_scores_substitution_alone(decoder: LanguageModel) -> None:
    """Which asks for words that are no coalition."""
    known = case(decoder)
    known.game.values()
    score, asked = known.game.score, []
    known.game.score = lambda words: asked.append(len(words)) or score(words)
    names = [*FAMILY["LIME and SHAP"], "leave one out", "substitution"]
    explain(known, names, remember=True)
    assert asked == [1 + 5 * 3]


def test_controls(decoder: LanguageModel) -> None:
    known = case(decoder, size=7, rationale=(1, 4))
    values = explain(known, list(FAMILY["control"])).groupby("method")["value"].agg(list)
    assert values["oracle"] == [0, 1, 0, 0, 1, 0, 0]
    assert values["position"] == sorted(set(values["position"]))
    assert min(values["position"]) > 0
    assert values["language"] == pytest.approx(exact_shapley(known.truth))
    assert np.abs(values["language"]).max() > 0.01


# -- the verdict on the methods -----------------------------------------------------------------


def test_a_judgement_per_method_and_chance(decoder: LanguageModel) -> None:
    known = case(decoder)
    table = explain(known)
    judged = judge(known, table)
    assert list(judged.columns) == [
        *("method", "family", *METRICS, "calls", "seconds", "completeness")
    ]
    assert judged["method"].tolist() == [*METHODS, "chance"]
    assert judged["family"].tolist() == [*(m.family for m in METHODS.values()), "control"]
    by = judged.set_index("method")
    assert by.loc["oracle", list(RATIONALE)].tolist() == pytest.approx([1] * 6)
    assert by.loc["language", "cosine to the language"] == pytest.approx(1)
    for name in ("SHAP exact", "Shapley exact"):
        assert by.loc[name, "cosine to the model"] == pytest.approx(1)
        assert by.loc[name, "error"] == pytest.approx(0, abs=1e-7)
    truth, exact = exact_shapley(known.truth), exact_shapley(known.game)
    assert by.loc["language", "error"] == pytest.approx(np.abs(truth - exact).mean(), abs=1e-7)
    estimates = FAMILY["LIME and SHAP"] | {"language"}
    assert set(by.index[by["error"].notna()]) == estimates
    expected = chance(5, 2) | any_order(known.game)
    assert by.loc["chance", list(expected)].to_dict() == pytest.approx(expected)
    assert by.loc["chance", ["cosine to the model", "cosine to the language"]].tolist() == [0, 0]
    assert by.loc["chance", ["calls", "seconds", "error"]].isna().all()
    costs = table.drop_duplicates("method").set_index("method")["calls"]
    assert by["calls"].drop("chance").to_dict() == costs.to_dict()
    assert set(by.index[by["completeness"].notna()]) == set(COMPLETE)
    assert by[list(HIDING)].notna().all(axis=None)


def test_the_order_of_the_methods_is_kept(decoder: LanguageModel) -> None:
    names = ["random", "LIME", "attention", "Shapley exact"]
    known = case(decoder, truth=None, rationale=None)
    together = judge(known, explain(known, names, seed=4), seed=5).set_index("method")
    assert together.index.tolist() == [*names, "chance"]
    assert together[[*RATIONALE, "cosine to the language"]].isna().all(axis=None)
    for name in names:
        alone = judge(known, explain(known, [name], seed=4), seed=5).set_index("method")
        columns = ["cosine to the model", *HIDING, "calls"]
        assert alone.loc[name, columns].tolist() == pytest.approx(
            together.loc[name, columns].tolist()
        )


@pytest.mark.slow
def test_the_random_control_sits_at_chance_in_every_metric(decoder: LanguageModel) -> None:
    """Of random words with random rationales, within the 95% interval; exact values do not."""
    distance: dict[tuple[str, str], list[float]] = {}
    metrics = [name for name in METRICS if name != "error"]
    for seed in range(200):
        rng = np.random.default_rng([3, seed])
        size = int(rng.integers(3, 8))
        rationale = tuple(rng.permutation(size)[: rng.integers(1, size)].tolist())
        known = case(decoder, size, seed=seed, rationale=rationale)
        table = explain(known, ["random", "Shapley exact"], seed, remember=True)
        judged = judge(known, table, seed).set_index("method")
        for name, metric in product(judged.index[:2], metrics):
            value = judged.loc[name, metric] - judged.loc["chance", metric]
            distance.setdefault((name, metric), []).append(value)
    for metric in metrics:
        values = np.array(distance["random", metric])
        _, low, high = bootstrap_mean(values[np.isfinite(values)])
        assert low < 0 < high, metric
    for metric in ("cosine to the model", *HIDING):
        better = -1 if metric in LOWER else 1
        _, low, high = bootstrap_mean(better * np.array(distance["Shapley exact", metric]))
        assert low > 0, metric


def test_stability_is_the_mean_cosine_of_pairs() -> None:
    assert stability(np.tile([1.0, -2.0, 3.0], (4, 1))) == pytest.approx(1)
    assert stability(np.array([[1.0, 2.0], [3.0, 6.0]])) == pytest.approx(1)
    assert stability(np.array([[1.0, 2.0], [-3.0, -6.0]])) == pytest.approx(-1)
    answers = np.array([[1.0, 0.0], [0.0, 5.0], [3.0, 4.0]])
    assert stability(answers) == pytest.approx((0 + 0.6 + 0.8) / 3)
    assert np.isnan(stability(answers[:1]))
    assert np.isnan(stability(np.zeros((3, 2))))
