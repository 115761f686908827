"""Every method through one interface: closed forms, what a case offers, what an answer costs."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from scipy.special import expit
from test_scores import LOWER

from interp.explanations.case import Case
from interp.explanations.explain import COSTS, explain, judge, stability
from interp.explanations.games import (
    EXACT_LIMIT,
    SCALES,
    Game,
    _itself,
    exact_shapley,
    on_both_scales,
)
from interp.explanations.interventions import leave_one_out, substitution
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)
from interp.explanations.methods import COMPLETE, EXACT, GATES, METHODS, offered
from interp.explanations.saliency import PARTS, POINTS
from interp.explanations.scores import (
    FIT,
    HIDING,
    METRICS,
    RATIONALE,
    _any_order,
    chance,
)
from interp.heads.attention import attention
from interp.heads.rollout_and_flow import rollout
from interp.statistics import bootstrap_mean
from models.base import LanguageModel, build
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig

FAMILY = {
    kind: {name for name, method in METHODS.items() if method.family == kind}
    for kind in ("LIME and SHAP", "attention", "gradient", "control")
}
HEADS = FAMILY["attention"] - {GATES}
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
        return model(tokens)[:, at, END_ID].double().numpy()

    def balanced(ids: np.ndarray) -> np.ndarray:
        return ((ids == 2).sum(1) == (ids == 3).sum(1)).astype(float)

    parts = {"truth": Game(balanced, word, hidden), "rationales": ((0, 2),), "samples": 64}
    played = Game(score, word, hidden, on_both_scales)
    return Case(played, model, END_ID, at, np.arange(2, 5), **{**parts, **changes})


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
    played.link = _itself
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
    for scale, found in zip((expit, lambda x: x), substitution(known), strict=True):
        for position, value in enumerate(found):
            changes = []
            for symbol in (2, 3, 4):
                other = known.game.word.copy()
                other[position] = symbol
                before, after = scale(known.game.score(np.stack([known.game.word, other])))
                changes.append(before - after)
            assert value == pytest.approx(max(changes, key=abs), abs=1e-6)


# -- both scales --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["decoder", "lstm"])
def test_each_scale_is_explained_as_if_it_were_alone(kind: str) -> None:
    """The row of a scale is the method asked about that number alone, with its own queries."""
    known = case(make(kind), size=6, samples=40)
    table = explain(known, None, seed=3)
    explained = dict(iter(table.groupby(["method", "scale"])["value"]))
    sigmoid = known.metrics["probability"]
    assert float(sigmoid(known.model(known.word[None]))[0].detach()) == pytest.approx(
        float(expit(known.game.score(known.game.word[None])[0]))
    )
    for output, scale in enumerate(SCALES):
        score = known.game.score
        alone = Game(
            lambda words, output=output, score=score: on_both_scales(score(words))[:, output],
            known.game.word,
            known.game.replacements,
        )
        assert explained["LIME", scale].to_numpy() == pytest.approx(lime(alone, 40, 3), abs=1e-9)
        assert explained["SHAP kernel", scale].to_numpy() == pytest.approx(
            kernel_shap(alone, 40, 3), abs=1e-7
        )
        exact = exact_shapley(alone)
        assert explained["Shapley exact", scale].to_numpy() == pytest.approx(exact, abs=1e-9)
        lost = leave_one_out(alone)
        assert explained["leave one out", scale].to_numpy() == pytest.approx(lost, abs=1e-9)
    both = [name for name in offered(known) if METHODS[name].scales == SCALES]
    for name in both:
        one, other = (explained[name, scale].to_numpy() for scale in SCALES)
        assert one != pytest.approx(other, abs=1e-4), name


def test_the_gradient_of_a_probability_is_that_of_the_log_odds_times_p_of_q(
    decoder: LanguageModel,
) -> None:
    known = case(deepcopy(decoder).double())  # the smallest value is lost in float32's rounding
    one, other = (
        rows.to_numpy()
        for _, rows in explain(known, ["gradient x input"]).groupby("scale", sort=False)["value"]
    )
    p = expit(known.game.score(known.game.word[None])[0])
    assert one == pytest.approx(other * p * (1 - p), rel=1e-9)


def test_what_is_estimated_is_said_in_every_row(decoder: LanguageModel) -> None:
    table = explain(case(decoder)).drop_duplicates(["method", "scale"])
    assert (table["estimand"].str.len() > 0).all()
    scales = table.groupby("method")["scale"].agg(tuple)
    assert scales["attention"] == scales["random"] == scales["oracle"] == ("none",)
    assert scales["direct logit attribution"] == ("log odds",)
    assert scales["language"] == ("membership",)
    assert scales["LIME"] == scales["integrated gradients"] == SCALES


def test_no_word_is_scored_for_one_scale_alone(decoder: LanguageModel) -> None:
    known = case(decoder)
    score, asked = known.game.score, []
    known.game.score = lambda words: asked.append(len(words)) or score(words)
    table = explain(known, ["LIME", "Shapley exact", "leave one out"])
    calls = table.drop_duplicates("method").set_index("method")["calls"]
    assert sum(asked) == calls.sum() == 64 * 3 + 2**5 * 3 + 6 * 3
    known.game.values()
    assert known.game.on("log odds").remembers


# -- what a case offers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_s_kind_decides_what_is_offered(kind: str) -> None:
    missing = {
        "lstm": HEADS,
        "cnn": FAMILY["attention"],
        "ngram": FAMILY["attention"] | FAMILY["gradient"],
    }.get(kind, {GATES})
    known = case(make(kind))
    assert offered(known) == [name for name in METHODS if name not in missing]
    table = explain(known)
    assert list(table["method"].unique()) == offered(known)
    assert table["value"].notna().all()
    assert set(table.loc[table["method"] == "substitution", "calls"]) == {1 + 5 * 3}


@pytest.mark.slow
def test_what_is_not_known_is_not_offered(decoder: LanguageModel) -> None:
    everything = set(METHODS) - {GATES}
    assert set(offered(case(decoder, truth=None))) == everything - {"language"}
    assert set(offered(case(decoder, rationales=None))) == everything - {"oracle"}
    assert set(offered(case(decoder, rationales=((),)))) == everything
    assert set(offered(case(decoder, size=EXACT_LIMIT))) == everything
    long = case(decoder, size=EXACT_LIMIT + 1)
    assert set(offered(long)) == everything - set(EXACT)
    table = explain(long)
    rows = sum(len(METHODS[name].scales) for name in offered(long))
    assert len(table) == (EXACT_LIMIT + 1) * rows
    judged = judge(long, table).set_index("method")
    assert judged["AUROC"].notna().all()
    assert judged[["comprehensiveness", "deletion"]].drop("chance").notna().all(axis=None)
    unknown = ["cosine to the model", "cosine to the language", "error", *FIT]
    assert judged[unknown].isna().all(axis=None)


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
        "gradient x input": 2 * 2,  # a pass per scale
        "SmoothGrad": 2 * (1 + 24),
        "integrated gradients": 3 * (1 + draws) + 2 * PARTS * (POINTS + 2) * draws,
        **dict.fromkeys(HEADS, 1),
        **dict.fromkeys(FAMILY["control"], 0),
    }
    assert calls[list(exactly)].to_dict() == exactly
    assert 2**size * draws <= calls["SHAP kernel"] <= 64 * draws
    for name in ("SHAP permutation", "SHAP partition"):
        assert 2 * size * draws < calls[name] <= 64 * draws
    assert 2 * (1 + 3 * draws) <= calls["DeepLift"] <= 2 * (1 + 5 * draws)
    assert known.game.calls == 0  # every method paid on its own
    assert not any(
        point._forward_hooks or point._forward_pre_hooks for point in decoder.hook_dict.values()
    )


def test_the_table_has_a_row_per_method_and_position(decoder: LanguageModel) -> None:
    known = case(decoder)
    table = explain(known, ["attention", "LIME", "integrated gradients", "DeepLift", "random"], 3)
    assert list(table.columns) == [
        *("method", "family", "estimand", "scale", "position", "value"),
        *COSTS,
    ]
    assert list(table["method"].unique())[:2] == ["attention", "LIME"]
    for name, rows in table.groupby("method"):
        assert rows["position"].tolist() == [0, 1, 2, 3, 4] * len(METHODS[name].scales)
        assert rows["family"].unique().tolist() == [METHODS[name].family]
        assert (rows["seconds"] >= 0).all()
        assert rows["completeness"].notna().all() == (name in COMPLETE)
        assert rows["completeness"].isna().all() == (name not in COMPLETE)
    values = {name: rows["value"].to_numpy() for name, rows in table.groupby("method")}
    assert values["LIME"] == pytest.approx(lime(known.game, 64, 3).ravel())
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
    unsigned = [name for name, method in METHODS.items() if not method.signed]
    assert not negative.reindex(unsigned, fill_value=False).any()
    assert negative[list(FAMILY["gradient"] | FAMILY["LIME and SHAP"])].all()


def test_what_replaces_nothing_is_the_same_under_any_replacement(decoder: LanguageModel) -> None:
    one, other = case(decoder), case(decoder)
    other.game.replacements = (other.game.replacements - 1) % 3 + 2
    other.truth.replacements = other.game.replacements
    first, second = (explain(known).groupby("method")["value"].agg(list) for known in (one, other))
    for name in first.index:
        assert (first[name] != second[name]) == METHODS[name].replaces, name


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
    known = case(decoder, size=7, rationales=((1, 4), (2, 4)))
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
    assert list(judged.columns) == [*("method", "family", "estimand", "scale", *METRICS, *COSTS)]
    rows = [(name, scale) for name in offered(known) for scale in METHODS[name].scales]
    assert list(zip(judged["method"], judged["scale"], strict=True)) == [*rows, ("chance", "none")]
    families = [METHODS[name].family for name, _ in rows]
    assert judged["family"].tolist() == [*families, "control"]
    by = judged.set_index("method")
    assert by.loc["oracle", list(RATIONALE)].tolist() == pytest.approx([1] * 6)
    assert by.loc["language", "cosine to the language"] == pytest.approx(1)
    for name in ("SHAP exact", "Shapley exact"):
        assert by.loc[name, "cosine to the model"].tolist() == pytest.approx([1, 1])
        assert by.loc[name, "error"].tolist() == pytest.approx([0, 0], abs=1e-7)
        assert by.loc[name, "scale"].tolist() == list(SCALES)
    truth, (exact, _) = exact_shapley(known.truth), exact_shapley(known.game)
    assert by.loc["language", "error"] == pytest.approx(np.abs(truth - exact).mean(), abs=1e-7)
    estimates = FAMILY["LIME and SHAP"] | {"language"}
    assert set(by.index[by["error"].notna()]) == estimates
    assert set(by.index[by["fit far"].notna()]) == estimates
    expected = chance(5, ((0, 2),)) | _any_order(known.game.on("probability"))
    assert by.loc["chance", list(expected)].to_dict() == pytest.approx(expected)
    assert by.loc["chance", ["cosine to the model", "cosine to the language"]].tolist() == [0, 0]
    assert by.loc["chance", ["calls", "seconds", "error"]].isna().all()
    costs = table.drop_duplicates("method").set_index("method")["calls"]
    assert by["calls"].drop("chance").groupby("method").first().to_dict() == costs.to_dict()
    assert set(by.index[by["completeness"].notna()]) == set(COMPLETE)
    assert by[list(HIDING)].notna().all(axis=None)


def test_the_order_of_the_methods_is_kept(decoder: LanguageModel) -> None:
    names = ["random", "LIME", "attention", "Shapley exact"]
    known = case(decoder, truth=None, rationales=None)
    together = judge(known, explain(known, names, seed=4), seed=5).set_index("method")
    assert list(dict.fromkeys(together.index)) == [*names, "chance"]
    assert together[[*RATIONALE, "cosine to the language"]].isna().all(axis=None)
    for name in names:
        alone = judge(known, explain(known, [name], seed=4), seed=5).set_index("method")
        columns = ["cosine to the model", *HIDING, "calls"]
        assert alone.loc[[name], columns].to_numpy() == pytest.approx(
            together.loc[[name], columns].to_numpy()
        )


@pytest.mark.slow
def test_the_random_control_sits_at_chance_in_every_metric(decoder: LanguageModel) -> None:
    """Of random words with random rationales, within the 95% interval; exact values do not."""
    distance: dict[tuple[str, str], list[float]] = {}
    metrics = [name for name in METRICS if name not in ("error", *FIT)]
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        size = int(rng.integers(3, 8))
        rationale = tuple(rng.permutation(size)[: rng.integers(1, size)].tolist())
        effects = rng.random(size)
        known = case(decoder, size, seed=seed, rationales=(rationale,), effects=effects)
        table = explain(known, ["random", "Shapley exact"], seed, remember=True)
        judged = judge(known, table, seed).drop_duplicates("method").set_index("method")
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
