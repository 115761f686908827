"""Every method through one interface: closed forms, what a case offers, what an answer costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from test_games import gains, game

from interp.explanations.explainers import (
    COMPLETE,
    EXACT,
    METHODS,
    Case,
    explain,
    judge,
    kernel_shap,
    lime,
    offered,
    partition_shap,
    permutation_shap,
    shap_exact,
    stability,
    substitution,
)
from interp.explanations.games import EXACT_LIMIT, Game, exact_shapley, leave_one_out
from interp.explanations.saliency import STEPS
from interp.explanations.scores import HIDING, LOWER, METRICS, RATIONALE, any_order, chance
from interp.heads.attention import attention
from interp.heads.rollout_and_flow import rollout
from interp.statistics import bootstrap_mean
from models.base import LanguageModel
from models.build import build
from models.config import ModelConfig
from models.languages import END_ID, LabelledCorpus, Vocabulary, language

Explain = Callable[..., np.ndarray]

SAMPLING: list[Explain] = [lime, kernel_shap, permutation_shap]
LIME_AND_SHAP: list[Explain] = [*SAMPLING, partition_shap, shap_exact]
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


@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_kernel_is_exact_where_it_can_try_all(size: int) -> None:
    played = game(size)
    assert kernel_shap(played, samples=512) == pytest.approx(exact_shapley(played), abs=1e-6)


def test_the_kernel_asks_at_least_about_every_position_alone() -> None:
    """A sum is then found exactly; with fewer samples the library's equation is singular."""
    weights = np.random.default_rng(12).normal(size=12)
    played = game(12, draws=1, score=lambda words: words @ weights)
    found = kernel_shap(played, samples=16)
    assert found == pytest.approx(weights * (played.word - played.replacements[0]), abs=1e-9)


def test_the_kernel_is_close_where_it_samples() -> None:
    """With its defaults the library drops two of twelve features: correlation 0.75."""
    played = game(12, draws=1)
    played.replacements = (played.word[None] - 1) % 3 + 2  # another symbol everywhere
    exact, sampled = exact_shapley(played), kernel_shap(played, samples=1024)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.99
    assert np.count_nonzero(exact) == np.count_nonzero(sampled) == 12
    full, empty = played(np.stack([np.ones(12, dtype=bool), np.zeros(12, dtype=bool)]))
    assert sampled.sum() == pytest.approx(full - empty, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_one_order_and_back_is_exact_for_pairs(size: int) -> None:
    """With fewer samples than one order needs, one is still walked."""
    rng = np.random.default_rng(size)
    one, two = rng.normal(size=size), rng.normal(size=(size, size))

    def pairs(words: np.ndarray) -> np.ndarray:
        value: np.ndarray = words @ one + np.einsum("wi,ij,wj->w", words, two, words)
        return value

    played = game(size, score=pairs)
    found = permutation_shap(played.fresh(), samples=1)
    assert found == pytest.approx(exact_shapley(played), abs=1e-9)


def test_many_orders_come_close_to_all() -> None:
    played = game(4, score=lambda words: (words == [2, 3, 4, 2]).all(axis=1).astype(float))
    played.word, played.replacements = np.array([2, 3, 4, 2]), np.array([[3, 4, 2, 3]])
    assert exact_shapley(played) == pytest.approx(np.full(4, 0.25))
    errors = [np.abs(permutation_shap(played, samples=n) - 0.25).max() for n in (9, 9000)]
    assert errors[1] < 0.02 < errors[0]


Tree = tuple["Tree", "Tree"] | int


def orders_of(tree: Tree) -> list[tuple[int, ...]]:
    """All orders in which a group's members follow each other."""
    if isinstance(tree, int):
        return [(tree,)]
    halves = list(product(orders_of(tree[0]), orders_of(tree[1])))
    return [x + y for x, y in halves] + [y + x for x, y in halves]


@pytest.mark.parametrize(
    "tree", [(0, 1), ((0, 1), (2, 3)), (((0, 1), (2, 3)), ((4, 5), (6, 7)))], ids=["2", "4", "8"]
)
def test_the_partition_gives_owen_s_values(tree: Tree) -> None:
    """Mean gains over the orders that keep neighbours together (Owen 1977)."""
    orders = orders_of(tree)
    size = len(orders[0])
    played = game(size)
    expected = gains(played, orders)
    assert partition_shap(played) == pytest.approx(expected, abs=1e-9)
    assert size == 2 or expected != pytest.approx(exact_shapley(played), abs=1e-3)


@pytest.mark.parametrize("size", [1, 3, 11, 20])
def test_the_partition_shares_out_the_whole_gain(size: int) -> None:
    played = game(size)
    full, empty = played(np.stack([np.ones(size, dtype=bool), np.zeros(size, dtype=bool)]))
    assert partition_shap(played, samples=64).sum() == pytest.approx(full - empty, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_shap_s_exact_values_are_ours(size: int) -> None:
    played = game(size)
    assert shap_exact(played.fresh()) == pytest.approx(exact_shapley(played), abs=1e-8)
    with pytest.raises(ValueError, match="13 symbols: explain at most 12"):
        shap_exact(game(13))


# -- the libraries' traps -----------------------------------------------------------------------


def test_lime_has_a_feature_for_every_position_of_a_word_of_equal_symbols() -> None:
    """With its defaults the library would find two features in aaabbb, and change the length."""
    lengths = set()
    weights = np.array([1.0, 2.0, 3.0, -3.0, -2.0, -1.0]) / 20

    def score(words: np.ndarray) -> np.ndarray:
        lengths.add(words.shape[1])
        return 0.5 + (words == 2) @ weights[: words.shape[1]]

    word = np.array([2, 2, 2, 2, 2, 2])
    played = Game(score, word, np.full((1, 6), 3))
    found = lime(played, samples=2000)
    assert lengths == {6}
    assert found.shape == (6,)
    assert found == pytest.approx(weights, abs=0.01)  # a linear game is its own surrogate


def test_lime_finds_the_positions_that_matter() -> None:
    played = game(10, score=lambda words: 0.2 * (words[:, 2] == words[:, 7]) + 0.3)
    played.word[[2, 7]] = 4
    found = np.abs(lime(played, samples=1000))
    assert set(np.argsort(found)[-2:]) == {2, 7}


@pytest.mark.parametrize("method", LIME_AND_SHAP)
def test_no_method_changes_the_length_of_a_line(method: Explain) -> None:
    """Lines of a labelled corpus; what hides a word is a word, and none is joined or split."""
    grammar = language("dieren")
    sample = grammar.sample(np.random.default_rng(0), 40, range(4, 9))
    words = [
        grammar.vocabulary.decode(ids[:length])
        for ids, length in zip(sample.words.ids, sample.words.lengths, strict=True)
    ]
    corpus = LabelledCorpus("lines", ["+" if label else "-" for label in sample.labels], words)
    known = corpus.vocabulary.words(words)
    for ids, length in zip(known.ids[:10], known.lengths[:10], strict=True):
        word = ids[:length]
        others = known.ids[known.lengths == length, :length][:2]
        asked: list[np.ndarray] = []

        def score(words: np.ndarray, asked: list[np.ndarray] = asked) -> np.ndarray:
            asked.append(words)
            return (words % 3 == 0).mean(axis=1)

        found = (
            method(Game(score, word, others), samples=40)
            if method in SAMPLING
            else method(Game(score, word, others))
        )
        assert found.shape == word.shape
        seen = np.concatenate(asked)  # all of one length, or this fails
        assert seen.shape[1] == length
        assert ((seen == word) | (seen[:, None] == others).any(axis=1)).all()
        assert (seen == word).all(axis=1).any()


@pytest.fixture
def global_state() -> Iterator[None]:
    """numpy's, set to something of its own, and found untouched."""
    np.random.seed(123)
    before = np.random.get_state()
    yield
    after = np.random.get_state()
    assert before[0] == after[0]
    assert (before[1] == after[1]).all()
    assert before[2:] == after[2:]


@pytest.mark.parametrize("method", SAMPLING)
@pytest.mark.usefixtures("global_state")
def test_a_seed_decides_and_the_global_state_stays(method: Explain) -> None:
    first = method(game(12), samples=300, seed=1)
    state = np.random.get_state()
    np.random.seed(321)
    assert method(game(12), samples=300, seed=1) == pytest.approx(first, abs=0)
    assert method(game(12), samples=300, seed=2) != pytest.approx(first, abs=1e-6)
    np.random.set_state(state)


@pytest.mark.usefixtures("global_state")
def test_the_partition_hangs_on_no_seed() -> None:
    """Where the samples do not reach all groups, and many groups gain alike."""
    state, found = np.random.get_state(), []
    played = game(20, score=lambda words: (words == 3).sum(axis=1) % 2 / 1.0)
    for seed in range(4):
        np.random.seed(seed)
        found.append(partition_shap(played, samples=30))
    np.random.set_state(state)
    found.append(partition_shap(played, samples=30))
    assert all(values == pytest.approx(found[0], abs=0) for values in found)


@pytest.mark.parametrize("method", [kernel_shap, permutation_shap, partition_shap])
@pytest.mark.usefixtures("global_state")
def test_an_error_leaves_the_global_state_alone_too(method: Explain) -> None:
    def broken(words: np.ndarray) -> np.ndarray:
        if len(words) > 1:
            raise RuntimeError("no")
        return np.zeros(len(words))

    with pytest.raises(RuntimeError, match="no"):
        method(game(6, draws=1, score=broken))


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
