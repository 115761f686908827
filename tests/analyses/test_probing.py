"""Probes: what is there is found, what is not there is not, and no word is on both sides."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformer_lens.tools.analysis.sparse_probing import fit_sparse_probe

from analyses.answers import Answer
from analyses.questions.inside import probing as asked_of_run
from analyses.questions.inside.probing import QUESTION, Options, _findings, analyse, examples
from analyses.words import one_of_each, sample_window
from interp.probing import probes as probing
from interp.probing.linear import Kind, fit_linear
from interp.probing.probes import Target, baseline, control_task, probe_sites
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import Vocabulary, language
from models.runs.run import Run

WORDS, POSITIONS, D = 60, 9, 12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def train() -> np.ndarray:
    return np.arange(WORDS) % 3 > 0


@pytest.fixture
def mask(rng: np.random.Generator) -> np.ndarray:
    """Words of different lengths."""
    return np.arange(POSITIONS) < rng.integers(3, POSITIONS + 1, size=WORDS)[:, None]


@pytest.fixture
def targets(rng: np.random.Generator, mask: np.ndarray) -> dict[str, Target]:
    shape = (WORDS, POSITIONS)
    return {
        "depth": Target(rng.integers(0, 10, shape), mask, "count"),
        "kind": Target(rng.integers(0, 3, shape), mask, "category"),
    }


@pytest.fixture
def sites(rng: np.random.Generator, targets: dict[str, Target]) -> dict[str, np.ndarray]:
    """ "noise" holds nothing; "planted" holds both variables, among noise, in a random basis."""
    noise = rng.normal(size=(WORDS, POSITIONS, D))
    planted = 0.1 * rng.normal(size=(WORDS, POSITIONS, D))
    planted[..., 0] += targets["depth"].values
    for kind in range(3):
        planted[..., 1 + kind] += targets["kind"].values == kind
    basis, _ = np.linalg.qr(rng.normal(size=(D, D)))
    return {"noise": noise, "planted": planted @ basis}


def score(table: pd.DataFrame, site: str, target: str) -> float:
    return float(table.set_index(["site", "target"]).loc[(site, target), "score"])


def test_a_planted_variable_is_found_and_an_absent_one_is_not(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray
) -> None:
    table = probe_sites(sites, targets, train)
    control = probe_sites(sites, targets, train, shuffled=True)
    nothing = baseline(targets, train)
    assert score(table, "planted", "depth") > 0.99
    assert score(table, "planted", "kind") > 0.99
    for target in targets:
        assert score(table, "noise", target) < score(nothing, "none", target) + 0.1
        assert score(control, "planted", target) < score(nothing, "none", target) + 0.1
    assert score(nothing, "none", "depth") == pytest.approx(0, abs=0.05)
    assert set(table["metric"][table["target"] == "depth"]) == {"R2"}
    assert set(table["metric"][table["target"] == "kind"]) == {"accuracy"}


def test_probes_are_the_pipelines_they_claim_to_be(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    table = probe_sites(sites, targets, train)
    models = {"depth": Ridge(alpha=1.0), "kind": LogisticRegression(max_iter=1000)}
    fit, held = mask & train[:, None], mask & ~train[:, None]
    for site, activation in sites.items():
        for name, model in models.items():
            values = targets[name].values
            pipeline = make_pipeline(StandardScaler(), model).fit(activation[fit], values[fit])
            expected = pipeline.score(activation[held], values[held])
            assert score(table, site, name) == pytest.approx(expected)
    assert (table["n_train"] == fit.sum()).all()
    assert (table["n_test"] == held.sum()).all()


def test_the_baseline_is_the_mean_and_the_commonest(
    targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    table = baseline(targets, train)
    fit, held = mask & train[:, None], mask & ~train[:, None]
    kind, depth = targets["kind"].values, targets["depth"].values
    commonest = np.bincount(kind[fit]).argmax()
    assert score(table, "none", "kind") == pytest.approx((kind[held] == commonest).mean())
    residual = ((depth[held] - depth[fit].mean()) ** 2).sum()
    spread = ((depth[held] - depth[held].mean()) ** 2).sum()
    assert score(table, "none", "depth") == pytest.approx(1 - residual / spread)


def test_no_word_is_on_both_sides(
    train: np.ndarray, mask: np.ndarray, rng: np.random.Generator
) -> None:
    """Every word has a random label of its own, written large in its activations: a probe that saw
    a word before would know it, an honest one cannot."""
    label = np.repeat(rng.integers(0, 2, WORDS)[:, None], POSITIONS, axis=1)
    identity = np.repeat(rng.normal(size=(WORDS, 1, 200)), POSITIONS, axis=1)
    table = probe_sites({"identity": identity}, {"label": Target(label, mask, "category")}, train)
    assert score(table, "identity", "label") < 0.75
    leak = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    even = np.arange(POSITIONS) % 2 == 0
    leak.fit(identity[mask & even], label[mask & even])
    assert leak.score(identity[mask & ~even], label[mask & ~even]) > 0.95


def test_padding_is_never_seen(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    spoilt = {name: np.where(mask[..., None], a, np.nan) for name, a in sites.items()}
    pd.testing.assert_frame_equal(
        probe_sites(spoilt, targets, train), probe_sites(sites, targets, train)
    )


@pytest.mark.parametrize("most", [10, 50])
def test_at_most_so_many_positions(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, most: int
) -> None:
    table = probe_sites(sites, targets, train, most={"count": most, "category": most})
    assert (table["n_train"] == most).all()
    assert (table["n_test"] == most).all()
    same = probe_sites(sites, targets, train, most={"count": most, "category": most})
    other = probe_sites(sites, targets, train, 1, most={"count": most, "category": most})
    pd.testing.assert_frame_equal(table, same)
    assert not table["score"].equals(other["score"])


def test_one_value_alone_has_no_probe(
    sites: dict[str, np.ndarray], train: np.ndarray, mask: np.ndarray
) -> None:
    flat = {"flat": Target(np.zeros((WORDS, POSITIONS), dtype=np.int64), mask, "category")}
    assert probe_sites(sites, flat, train).empty
    assert baseline(flat, train).empty


@pytest.mark.parametrize("k", [1, 8])
def test_a_sparse_probe_takes_the_features_that_tell_most(
    sites: dict[str, np.ndarray],
    targets: dict[str, Target],
    train: np.ndarray,
    mask: np.ndarray,
    k: int,
) -> None:
    """As scikit-learn does it by hand; and of two classes TransformerLens chooses the same ones."""
    table = probe_sites(sites, targets, train, methods=[f"{k}-sparse"])
    fit, held = mask & train[:, None], mask & ~train[:, None]
    x, y = sites["planted"][fit], targets["depth"].values[fit]
    chosen = np.argsort(-np.abs(np.corrcoef(x.T, y)[-1, :-1]))[:k]
    by_hand = make_pipeline(StandardScaler(), Ridge(alpha=1.0)).fit(x[:, chosen], y)
    expected = by_hand.score(sites["planted"][held][:, chosen], targets["depth"].values[held])
    assert score(table, "planted", "depth") == pytest.approx(expected)
    two = targets["kind"].values[fit] == 1
    numbers = two.astype(np.int64)
    wide = StandardScaler().fit_transform(x)
    wide /= np.sqrt(wide[two].var(axis=0) * two.mean() + wide[~two].var(axis=0) * (~two).mean())
    probe = fit_linear(wide, numbers, "category", f"{k}-sparse")
    ours = probe[0].get_support(indices=True)
    features, labels = torch.as_tensor(np.tile(wide, (2, 1))), torch.as_tensor(np.tile(two, 2))
    groups = torch.arange(len(labels)) // len(two)  # trained on one copy, tested on the other
    theirs = fit_sparse_probe(features, labels, k=k, test_fraction=0.5, groups=groups)
    assert sorted(theirs.selected_features.tolist()) == ours.tolist()


def test_a_perceptron_is_the_pipeline_it_claims_to_be(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray, mask: np.ndarray
) -> None:
    table = probe_sites({"planted": sites["planted"]}, targets, train, 7, methods=["mlp"])
    fit, held = mask & train[:, None], mask & ~train[:, None]
    sizes = {"hidden_layer_sizes": (64,), "max_iter": 20, "n_iter_no_change": 20}
    nets = {
        "depth": TransformedTargetRegressor(
            MLPRegressor(**sizes, learning_rate_init=5e-3, random_state=7),
            transformer=StandardScaler(),
        ),
        "kind": MLPClassifier(**sizes, learning_rate_init=5e-3, random_state=7),
    }
    x = sites["planted"]
    for name, net in nets.items():
        y = targets[name].values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            by_hand = make_pipeline(StandardScaler(), net).fit(x[fit], y[fit])
        assert score(table, "planted", name) == pytest.approx(by_hand.score(x[held], y[held]))


@pytest.mark.slow
def test_selectivity_is_the_score_beyond_the_control_task(trained: Run) -> None:
    result = analyse(trained, Options(words=40))
    rows = result.table[result.table["split"] == "words"]
    scores = rows.set_index(["model", "probe", "site", "target"])["score"]
    found = result.findings["best"]["a-b"]
    for method, value in found["selectivity"].items():
        here = (method, found["site"], "a-b")
        assert value == scores["trained", *here] - scores["control task", *here]
    assert set(found["selectivity"]) == {"linear", "mlp"}
    seen = examples(trained, trained.model(), Options(words=40))
    wanted, train = seen.targets, seen.fit
    symbol, place = (wanted[name].values for name in ("symbol", "position"))
    target, drawn = wanted["a-b"], {}
    occurring = target.values[target.mask & train[:, None]]
    rng = np.random.default_rng(0)
    types = sorted(set(zip(symbol.flat, place.flat, strict=True)))
    for pair, value in zip(types, rng.choice(occurring, size=len(types)), strict=True):
        drawn[pair] = value
    values = np.array([drawn[s, p] for s, p in zip(symbol.flat, place.flat, strict=True)])
    control = Target(values.reshape(symbol.shape), target.mask, "count")
    there = {found["site"]: seen.sites[found["site"]]}
    by_hand = probe_sites(there, {"a-b": control}, train, choose=seen.choose)
    assert scores["control task", "linear", found["site"], "a-b"] == by_hand["score"].item()


def test_a_perceptron_reads_what_no_linear_probe_can(
    rng: np.random.Generator, train: np.ndarray, mask: np.ndarray
) -> None:
    signs = rng.choice([-1.0, 1.0], size=(WORDS, POSITIONS, 2))
    exclusive = Target((signs.prod(axis=-1) > 0).astype(np.int64), mask, "category")
    noisy = {"signs": signs + 0.1 * rng.normal(size=signs.shape)}
    table = probe_sites(noisy, {"xor": exclusive}, train, methods=["linear", "mlp"])
    scores = table.set_index("probe")["score"]
    assert scores["mlp"] > 0.95
    assert scores["linear"] < 0.85


def test_the_control_task_is_a_table_of_random_values(
    targets: dict[str, Target], train: np.ndarray, mask: np.ndarray, rng: np.random.Generator
) -> None:
    types = rng.integers(0, 40, (WORDS, POSITIONS))
    for target in targets.values():
        drawn = control_task(target, types, train, seed=0)
        by_type = {t: np.unique(drawn.values[types == t]) for t in np.unique(types)}
        assert all(len(values) == 1 for values in by_type.values())
        occurring = target.values[target.mask & train[:, None]]
        assert set(np.unique(drawn.values)) <= set(occurring)
        assert len(np.unique(drawn.values)) > 2
        assert drawn.kind == target.kind
        assert (drawn.mask == mask).all()
        again, other = (control_task(target, types, train, seed) for seed in (0, 1))
        assert (again.values == drawn.values).all()
        assert (other.values != drawn.values).any()
    one_hot = {"types": np.eye(40)[types]}
    table = probe_sites(one_hot, {"control": control_task(targets["kind"], types, train, 0)}, train)
    assert table["score"].item() == 1.0  # a probe that sees the type memorises it


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["count", "category"])
def test_an_absent_variable_scores_at_its_control_over_twenty_seeds(
    train: np.ndarray, mask: np.ndarray, kind: Kind
) -> None:
    """Planted in one layer of three, it is found there and only there."""
    scores = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        target = Target(rng.integers(0, 3, (WORDS, POSITIONS)), mask, kind)
        layers = {f"L{i}": rng.normal(size=(WORDS, POSITIONS, D)) for i in range(3)}
        layers["L1"][..., 0] = target.values
        tables = [
            probe_sites(layers, {"v": target}, train, seed),
            probe_sites(layers, {"v": target}, train, seed, shuffled=True),
        ]
        found, control = (table.set_index("site")["score"] for table in tables)
        scores.append([found["L0"], found["L1"], found["L2"], control["L0"], control["L2"]])
    values = np.array(scores)
    assert values[:, 1].min() > 0.97
    for layer, control in ((0, 3), (2, 4)):
        _, low, high = bootstrap_mean(values[:, layer] - values[:, control])
        assert low <= 0 <= high


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=12), st.integers(0, 5))
def test_each_prefix_counts_once(drawn: list[str], seed: int) -> None:
    """By a dictionary: of all words that begin alike, one shows this prefix; of a model that sees
    whole words, of equal words one counts, with all its positions."""
    words = Vocabulary(("a", "b")).words([tuple(word) for word in drawn])
    once = one_of_each(words, False, seed)
    shown = [drawn[word][:position] for word, position in np.argwhere(once)]
    assert len(shown) == len(set(shown))
    assert set(shown) == {word[:end] for word in drawn for end in range(len(word) + 1)}
    whole = one_of_each(words, True, seed)
    kept = [word for word, row in zip(drawn, whole, strict=True) if row.any()]
    assert sorted(kept) == sorted(set(drawn))
    for word, row in zip(drawn, whole, strict=True):
        assert row.sum() in (0, len(word) + 1)
        assert not row[len(word) + 1 :].any()


def test_words_that_share_a_prefix_take_turns_to_show_it() -> None:
    """Else one long word would show all of a^n, and only one part of the words would know it."""
    words = Vocabulary(("a", "b")).words([tuple("a" * 40)] * 8)
    assert (one_of_each(words, False, 0).sum(axis=1) > 0).sum() >= 6


@pytest.mark.slow
def test_no_prefix_fits_a_probe_and_is_scored(trained: Run) -> None:
    """The tiny run has few words: all words of a part begin like words of the others."""
    seen = examples(trained, trained.model(), Options(words=60))
    words = sample_window(trained, 60, 0).words
    parts = [seen.fit, seen.choose, seen.score]
    assert (np.sum(parts, axis=0) == 1).all()
    for target in seen.targets.values():
        prefixes = [
            {tuple(words.ids[w, :p]) for w, p in np.argwhere(target.mask & part[:, None])}
            for part in parts
        ]
        assert all(prefixes)
        assert sum(map(len, prefixes)) == len(set().union(*prefixes)) == target.mask.sum()


@pytest.mark.parametrize("name", ["depth", "kind"])
def test_the_interval_is_the_bootstrap_of_whole_words(
    sites: dict[str, np.ndarray],
    targets: dict[str, Target],
    train: np.ndarray,
    mask: np.ndarray,
    name: str,
) -> None:
    """By hand: words are drawn with replacement, all their positions with them, and scikit-learn
    scores them."""
    target, noisy = targets[name], {"x": sites["planted"] + 0.5 * sites["noise"]}
    row = probe_sites(noisy, {name: target}, train).iloc[0]
    fit, held = mask & train[:, None], mask & ~train[:, None]
    scale = StandardScaler().fit(noisy["x"][fit])
    probe = fit_linear(scale.transform(noisy["x"][fit]), target.values[fit], target.kind)
    score = r2_score if target.kind == "count" else accuracy_score
    sides = {
        word: (target.values[word][own], probe.predict(scale.transform(noisy["x"][word][own])))
        for word in np.flatnonzero(~train)
        if (own := held[word]).any()
    }
    rng, values = np.random.default_rng(1), []
    for _ in range(2000):
        drawn = [sides[word] for word in rng.choice(list(sides), len(sides))]
        values.append(score(*map(np.concatenate, zip(*drawn, strict=True))))
    assert row["low"] < row["score"] < row["high"]
    assert np.quantile(values, [0.025, 0.975]) == pytest.approx([row["low"], row["high"]], abs=0.01)


def test_a_word_cannot_fit_and_choose(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray
) -> None:
    with pytest.raises(ValueError, match="cannot choose the site"):
        probe_sites(sites, targets, train, choose=train)


def test_the_words_that_choose_are_scored_apart(
    sites: dict[str, np.ndarray], targets: dict[str, Target], train: np.ndarray
) -> None:
    """The choice is the score of a table in which the other words are scored, and the reverse."""
    choose = ~train & (np.cumsum(~train) % 2 == 0)
    rest = ~train & ~choose
    table = probe_sites(sites, targets, train, choose=choose)
    other = probe_sites(sites, targets, train, choose=rest)
    assert table["choice"].tolist() == pytest.approx(other["score"].tolist())
    assert table["score"].tolist() == pytest.approx(other["choice"].tolist())
    assert table["choice"].tolist() != table["score"].tolist()
    assert probe_sites(sites, targets, train)["choice"].isna().all()


def test_too_few_words_are_a_users_mistake() -> None:
    empty = pd.DataFrame(columns=["model", "probe", "split", "site", "target", "metric", "choice"])
    with pytest.raises(UserError, match=r"too few words .* larger --max-n$"):
        _findings(empty.assign(score=[], low=[], high=[], n_test=[]))


def read(low: float | None, untrained: float, longer: float = 0.9) -> Answer:
    about = {"site": "L0 mlp_out", "metric": "R2", "score": 0.95, "low": low, "high": 0.99}
    about |= {"n_test": 40, "longer": longer}
    best = {
        name: {**about, "controls": {"untrained": value, "control task": 0.1}}
        for name, value in {"a-b": untrained, "remaining": 0.96, "block": 0.96}.items()
    }
    found = {"main": "a-b", "best": best, "repeated": ["remaining"]}
    return Answer(pd.DataFrame(), findings=found)


@pytest.mark.parametrize(
    ("asked", "grade"),
    [
        (read(0.9, 0.5), "holds"),
        (read(0.9, 0.5, longer=0.4), "fragile"),
        (read(0.9, 0.92), "no better than its controls"),
        (read(None, 0.5), "not weighed"),
    ],
)
def test_a_variable_is_read_beyond_its_controls(asked: Answer, grade: str) -> None:
    (claim,) = QUESTION.claims(asked)
    assert claim.grade == grade
    assert claim.notes[0].startswith("Of the untrained network, block can be read as well")


def test_a_variable_in_other_words_is_not_counted_again() -> None:
    for name, repeated in (
        ("anbn", ["count_b", "remaining"]),
        ("anbncn", ["count_b", "count_c", "remaining"]),
        ("dyck1", ["state"]),
        ("parity", []),
    ):
        known = language(name)
        words = known.sample(np.random.default_rng(0), 60, known.lengths(9)).words
        found = asked_of_run.targets(known, words)
        main = {each: found[each] for each in known.main_variables}
        assert asked_of_run._repeated(main) == repeated, name


def test_the_main_variable_is_the_first_of_the_language_that_was_probed() -> None:
    columns = ["model", "probe", "split", "target", "metric", "choice", "score"]
    rows = [("trained", "linear", "words", name, "R2", 0.9, 0.9) for name in ("x", "y", "z")]
    table = pd.DataFrame(rows, columns=columns).assign(site="embed", low=0.8, high=1.0, n_test=9)
    assert _findings(table, ["w", "z", "x"])["main"] == "z"
    assert _findings(table)["main"] == "x"


def test_metrics_are_named() -> None:
    assert probing.METRIC == {"count": "R2", "category": "accuracy"}


def test_only_the_probes_that_are_asked_for_are_fitted(trained: Run) -> None:
    alone = analyse(trained, Options(words=40, probes=()))
    assert set(alone.table["probe"]) == {"linear", "none"}
    both = analyse(trained, Options(words=40, probes=("compression",)))
    assert set(both.table["probe"]) == {"linear", "none", "online code"}
    same = both.table[both.table["probe"] != "online code"].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, alone.table)
    assert {"compression", "mlp"} & set(QUESTION.headline(alone)["of"]) == set()


@pytest.mark.torture
def test_processes_say_the_same(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many words are probed side by side; the tests that ask so many do it in one process."""
    asked = Options(words=24, probes=())
    tables = []
    for enough in (25, 24):
        monkeypatch.setattr(asked_of_run, "ENOUGH", enough)
        with parallel_config("loky"):
            tables.append(analyse(trained, asked).table)
    pd.testing.assert_frame_equal(*tables)
