"""Every row of an answer is the lens, called by hand on the model and the data that the row names.

A lens may be right and its control be wired to the wrong thing: the untrained model is the trained
one, or the longer words are the shorter ones. So each question has a function here that calls the
lens itself. Its rows must come back. And no two controls may have the same numbers, because then
nobody would see that they are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import chain, combinations
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import TINY, tiny_config

from analyses.answers import Answer, question, quiet
from analyses.options.behaviour import Accuracy
from analyses.options.inside import Interventions, Probing
from analyses.options.parts import Circuits, Heads, Patching
from analyses.options.rule import Discovery
from analyses.options.training import Emergence
from analyses.options.words import Explanations, Leaderboard
from analyses.questions.inside.probing import METHODS, NUISANCE, targets
from analyses.questions.parts.circuits import _pairs
from analyses.questions.parts.heads import METHODS as ABLATIONS
from analyses.questions.parts.patching import components_of
from analyses.questions.rule.discovery import HELD_OUT, MOST_LINES, judge
from analyses.questions.rule.rule_evidence import Lines, transitions
from analyses.questions.training.emergence import MOST
from analyses.questions.trials import cases, erasing, exchanging
from analyses.questions.trials.last_blocks import LastBlocks
from analyses.questions.trials.prefixes import Prefixes
from analyses.questions.trials.steering import ends_under, reach
from analyses.questions.words.explanations import replacements
from analyses.questions.words.leaderboard import words_of
from analyses.registry import usual
from analyses.words import (
    ANALYSIS_SEED,
    WordTensors,
    changed_words,
    counterfactuals,
    member,
    one_of_each,
    sample_window,
)
from interp.automata.induction import Search, induce
from interp.causal.ablation import ablate
from interp.causal.alignment import answered, exchanged
from interp.causal.metrics import logit_at
from interp.causal.patching import patch
from interp.causal.scrubbing import scrubbed
from interp.circuits.circuits import Bench, Quality, connected, smallest
from interp.circuits.controls import random_circuits
from interp.circuits.effects import DIRECTIONS, edge_effects
from interp.circuits.needs import incompleteness
from interp.circuits.scores import edge_scores
from interp.explanations.case import Case
from interp.explanations.explain import explain
from interp.explanations.explain import judge as judged
from interp.explanations.games import Game, exact_shapley, on_both_scales
from interp.heads.apart import SIDES, distances, shared_directions
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.types import TYPES, head_types
from interp.model import sites_of
from interp.probing.description_length import code_lengths
from interp.probing.erasure import Eraser
from interp.probing.probes import Target, baseline, control_task, probe_sites
from interp.probing.steering import adding, direction, random_direction
from interp.probing.steering_trials import outcomes
from models.base import LanguageModel
from models.languages import END_ID, Sample, Words
from models.runs.checkpoints import folder_name
from models.runs.run import Run
from models.training.evaluation import balanced_words, evaluate
from models.training.evaluation import judge as marks
from models.training.loop import train
from models.training.trained_words import TrainedWords

SEED = 3  # another than the default: an option that is forgotten shows
NEAR = {"rtol": 1e-3, "atol": 1e-4}
FEW = ("resid_mid", "resid_post")  # sites to probe
Rows = tuple[Mapping[str, object], pd.DataFrame]
"""Values of some columns, which choose rows of the answer, and what these rows must hold."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One layer that has learned: an untrained one would say the same as its controls."""
    changes: dict[str, Any] = {"steps": 60, "learning_rate": 1e-2, "batch_size": 32, "max_n": 5}
    config = tiny_config(**changes, evaluate_every=60, model=replace(TINY, d_model=12))
    made = Run.create(tmp_path_factory.mktemp("controls") / "run", config)
    train(made, "cpu")
    for step in made.steps()[2:-1]:  # three are enough to follow
        rmtree(made.checkpoints / folder_name(step))
    return made


def models(run: Run) -> Iterator[tuple[str, LanguageModel]]:
    yield "trained", run.model()
    yield "untrained", run.untrained()


def seen(model: LanguageModel, tokens: np.ndarray) -> dict[str, torch.Tensor]:
    """What a model's sites hold, by label."""
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.as_tensor(tokens))
    return {label: cache[hook] for label, hook in sites_of(model, FEW).items()}


def arrays(model: LanguageModel, tokens: np.ndarray) -> dict[str, np.ndarray]:
    return {label: x.numpy() for label, x in seen(model, tokens).items()}


# -- the lenses, by hand --------------------------------------------------------------------------


def accuracy(run: Run) -> Iterator[Rows]:
    trained = TrainedWords(run.config, run.language, run.steps()[-1])
    for name, model in models(run):
        scores = evaluate(model, run.language, run.objective, range(2, 13, 2), 8, SEED, trained)
        rows = pd.DataFrame(map(asdict, scores)).astype({"fresh_recognition": "Float64"})
        yield {"model": name}, rows


def thinned(run: Run, words: Words) -> dict[str, Target]:
    """The targets, where each prefix counts once: ``one_of_each`` has tests of its own."""
    once = one_of_each(words, False, SEED)
    return {
        name: Target(target.values, target.mask & once, target.kind)
        for name, target in targets(run.language, words).items()
    }


def probing(run: Run) -> Iterator[Rows]:
    words = sample_window(run, 24, SEED).words
    known = thinned(run, words)
    state = {name: target for name, target in known.items() if name not in NUISANCE}
    place = np.random.default_rng([ANALYSIS_SEED, SEED]).permutation(24)
    half, quarter = place % 2 == 0, place % 4 == 1
    shorter = (words.lengths <= np.median(words.lengths)) & ~quarter
    probes = partial(probe_sites, seed=SEED, choose=quarter)
    sites = {name: arrays(model, words.tokens) for name, model in models(run)}
    for name, x in sites.items():
        for method in METHODS:
            asked = known if method == "linear" else state
            table = probes(x, asked, half, methods=[method])
            yield {"model": name, "split": "words", "probe": method}, table
        yield {"model": name, "split": "longer"}, probes(x, known, shorter)
        table = code_lengths(x, known, SEED)
        yield {"model": name, "split": "words", "probe": "online code"}, table
    places = np.arange(words.tokens.shape[1])
    kinds = words.tokens * len(places) + places
    drawn = {name: control_task(target, kinds, half, SEED) for name, target in state.items()}
    for method in METHODS[:2]:
        table = probes(sites["trained"], drawn, half, methods=[method])
        yield {"model": "control task", "probe": method}, table
    shuffled = probes(sites["trained"], known, half, shuffled=True)
    yield {"model": "shuffled labels"}, shuffled
    form = {
        "position": np.broadcast_to(places, words.tokens.shape),
        "symbol": known["symbol"].values,
    }
    for name, values in form.items():
        one_hot = {f"{name} alone": np.eye(values.max() + 1)[values]}
        yield {"model": f"{name} alone"}, probes(one_hot, state, half)
    yield {"model": "no activation"}, baseline(known, half, SEED, choose=quarter)


def emergence(run: Run) -> Iterator[Rows]:
    words, language = sample_window(run, 16, SEED).words, run.language
    state = {name: t for name, t in thinned(run, words).items() if name not in NUISANCE}
    place = np.random.default_rng([ANALYSIS_SEED, SEED]).permutation(16)
    half, quarter = place % 2 == 0, place % 4 == 1
    lengths = language.lengths(run.config.max_n)
    tests = [balanced_words(language, length, 4, SEED) for length in lengths]
    sample = reduce(Sample.concatenate, [test for test in tests if test is not None])
    for step in run.steps():
        model = run.model(step)
        sites = arrays(model, words.tokens)
        probes = probe_sites(sites, state, half, SEED, most=MOST, choose=quarter)
        exact, right, loss = marks(model, language, sample, run.objective)
        table = pd.DataFrame({"length": sample.words.lengths, "recognition": right, "exact": exact})
        by_length = table.groupby("length")["recognition"].mean()
        by_length_exact = table[sample.labels].groupby("length")["exact"].mean()
        others = [loss, *by_length, *by_length_exact]
        yield (
            {"step": step},
            pd.DataFrame(
                {
                    "choice": [*probes["choice"], *[np.nan] * len(others)],
                    "value": [*probes["score"], *others],
                }
            ),
        )


def interventions(run: Run) -> Iterator[Rows]:
    yield from erasure(run)
    yield from steering(run)
    yield from interchange(run)
    yield from states(run)


def interchange(run: Run) -> Iterator[Rows]:
    """Trained on a part of the prefixes, tested on two others, for the values that are meant and
    for arbitrary ones."""
    found = Prefixes.of(run, SEED)
    assert found is not None
    parts = dict(zip(("fit", "choose", "score"), found.parts(SEED), strict=True))
    counts = {"fit": 8, "choose": 64, "score": 128}
    means = {"DAS": cases.meant(found), "DAS, arbitrary targets": cases.arbitrary(found, SEED)}
    for name, model in models(run):
        for method, meaning in means.items():
            if name == "untrained" and method != "DAS":
                continue
            for group in (("read again", "here"), ("carried",), ("carried in proportion",)):
                drawn = {
                    (split, change): cases.drawn_cases(
                        run, model, found, part, change, counts[split], SEED, meaning
                    )
                    for split, part in parts.items()
                    for change in group
                }
                for split, change in list(drawn)[len(group) :]:
                    rows = exchanged(
                        model,
                        list(exchanging.exchange_sites(model).values()),
                        drawn["fit", group[0]],
                        {"test": drawn[split, change]},
                        [1, 4] if "here" in group else [1],
                        controls=name == "trained" and method == "DAS",
                        seed=SEED,
                    )
                    controls = ("none", "whole activation", "random subspace")
                    where = {
                        "model": name,
                        "experiment": "interchange",
                        "measure": exchanging.MEASURES[change],
                        "split": split,
                        "method": (method, *controls) if method == "DAS" else (method,),
                    }
                    yield where, rows[["amount", "value", "low", "high", "units"]]


def states(run: Run) -> Iterator[Rows]:
    """Means of states put in, in their direction or in a random one; and scrubbing."""
    found, model = Prefixes.of(run, SEED), run.model()
    assert found is not None
    words = run.language.vocabulary.words(found.words)
    tokens, at = torch.as_tensor(words.tokens), torch.as_tensor(words.lengths)
    a_b, (fit, choose, score) = found.states[:, 0], found.parts(SEED)
    x = seen(model, words.tokens)
    right: dict[str, list[float]] = {"state means": [], "random direction, as far": []}
    for part, count in ((choose, 64), (score, 128)):
        drawn = cases.drawn_cases(run, model, found, part, "here", count, SEED)
        assert drawn is not None
        own, wanted = a_b[drawn.units].T
        known = np.isin(own, a_b[fit]) & np.isin(wanted, a_b[fit])
        for site, hook in exchanging.exchange_sites(model).items():
            there = x[site][torch.arange(len(at)), at].double()
            means = {k: there[fit[a_b[fit] == k]].mean(dim=0) for k in set(a_b[fit].tolist())}
            nothing = torch.zeros(there.shape[1]).double()
            move = torch.stack(
                [
                    means.get(to, nothing) - means.get(start, nothing)
                    for start, to in zip(own.tolist(), wanted.tolist(), strict=True)
                ]
            )
            drawn_ways = [random_direction(move[0], seed) for seed in range(2)]
            turned = [
                move.norm(dim=1, keepdim=True) * way / way.norm().clamp_min(1e-12)
                for way in drawn_ways
            ]
            for method, ways in (("state means", [move]), ("random direction, as far", turned)):
                shares = []
                for way in ways:
                    moved = torch.zeros(*drawn.base.shape, move.shape[1])
                    moved[torch.arange(len(moved)), drawn.to[:, 0]] = way.float()
                    good = answered(model, hook, drawn, moved, lambda whole, part: whole)
                    shares.append(good[known].mean())
                right[method].append(float(np.mean(shares)))
    for method, values in right.items():
        where = {"experiment": "steering", "method": method, "model": "trained"}
        yield where, pd.DataFrame({"value": values})
    behaviour = found.ends.astype(int)
    hypotheses = {
        "same a-b": a_b,
        "same next symbols": behaviour,
        "same position": words.lengths,
        "arbitrary classes": np.random.default_rng([ANALYSIS_SEED, SEED]).permutation(
            np.unique(a_b, return_inverse=True)[1]
        ),
    }
    target = torch.as_tensor(found.allowed).float()

    def loss(logits: torch.Tensor) -> torch.Tensor:
        said = logits[:, 1:].sigmoid()  # of all tokens but BOS
        return -(target * said.log() + (1 - target) * (1 - said).log()).sum(dim=1)

    weights = 1 / np.bincount(behaviour)[behaviour]
    tables = [
        scrubbed(model, hook, tokens, at, loss, hypotheses, weights, SEED)
        for hook in exchanging.exchange_sites(model).values()
    ]
    columns = ["method", "measure", "value", "low", "high", "words"]
    yield {"experiment": "scrubbing"}, pd.concat(tables)[columns]


def erasure(run: Run) -> Iterator[Rows]:
    """LEACE, four erasers of random directions, and four of random readouts."""
    words, model = sample_window(run, 24, SEED).words, run.model()
    fits = np.arange(24) % 2 == 0
    right = erasing.judge(run, model, erasing.asked_words(run, 12, SEED))
    known, hooks = targets(run.language, words), sites_of(model)
    held, right_shares, changes = seen(model, words.tokens), list[Any](), list[Any]()
    before = halves(right())
    for site, hook in hooks.items():
        for variable in run.language.main_variables:
            at = known[variable].mask & fits[:, None]
            x = held[site][torch.as_tensor(at)]
            leace = Eraser.fit(x, as_columns(known[variable], at))
            erasers = {"LEACE": [leace], "random directions": [], "random readout": []}
            for seed in range(4):
                generator = torch.Generator().manual_seed(seed)
                size = x.shape[1], leace.rank
                weights = torch.randn(size, generator=generator, dtype=torch.float64)
                readout = (x.double() - x.double().mean(0)) @ weights
                erasers["random directions"].append(Eraser.random(x, leace.rank, seed))
                erasers["random readout"].append(Eraser.fit(x, readout))
            shares, moved = {"none": before}, {"none": [np.nan, 0.0]}
            for method, some in erasers.items():
                scores = np.mean([right((hook, each.hook)) for each in some], axis=0)
                shares[method] = halves(scores)
                moved[method] = [np.nan, np.mean([each.changed(x) for each in some])]
            right_shares.append(shares)
            changes.append(moved)
    for method, values in pd.DataFrame([*right_shares, *changes]).items():
        where = {"experiment": "erasure", "method": method, "model": "trained"}
        measures = {"measure": ("words right", "changed")}
        yield {**where, **measures}, pd.DataFrame([*values], columns=["choice", "value"])


def halves(scores: np.ndarray) -> list[float]:
    """Over every other word, which chooses, and over the words between."""
    return [float(scores[::2].mean()), float(scores[1::2].mean())]


def as_columns(target: Target, at: np.ndarray) -> torch.Tensor:
    values = target.values[at]
    wide = values[:, None] if target.kind == "count" else values[:, None] == np.unique(values)
    return torch.as_tensor(wide).double()


def steering(run: Run) -> Iterator[Rows]:
    """The direction of a-b at the b's, in proportion or not, and three random ones as long."""
    model, furthest = run.model(), reach(run)
    ks = np.array([k for k in range(-furthest, furthest + 1) if k])
    assert hasattr(run.language, "blocks")
    words = LastBlocks.of(run.language, np.arange(furthest + 1, 6 - furthest), 2 * furthest)
    members = LastBlocks.of(run.language, np.arange(1, 6), 0)
    ends = ends_under(model, words, len(ks))
    sizes = torch.as_tensor(np.repeat(ks, len(words.n)))[:, None] * words.last.repeat(len(ks), 1)
    position = torch.arange(members.tokens.shape[1]).expand_as(members.tokens)[members.last]
    length = torch.arange(1, words.tokens.shape[1] + 1)
    states, tables = seen(model, members.tokens.numpy()), dict[str, list[pd.DataFrame]]()
    unmoved = ends()
    for site, hook in sites_of(model).items():
        x, d = states[site][members.last], members.difference[members.last]
        for suffix, way, amount in (
            ("", direction(x, d), sizes.double()),
            (" in proportion", direction(x, d / (position + 1)), sizes / length),
        ):
            drawn = [random_direction(way, seed) for seed in range(3)]
            for method, some in ((f"added{suffix}", [way]), (f"random direction{suffix}", drawn)):
                shifts = [ends((hook, adding(each, amount))) - unmoved for each in some]
                tables.setdefault(method, []).append(outcomes(ks, np.stack(shifts)))
    for method, parts in tables.items():
        where = {"experiment": "steering", "method": method, "model": "trained"}
        yield where, pd.concat(parts)[["measure", "amount", "choice", "value"]]


def sides(values: pd.DataFrame, unit: np.ndarray) -> tuple[list[float], list[float]]:
    """The means of each column over the words that choose, and over the others."""
    place = np.random.default_rng(ANALYSIS_SEED).permutation(unit.max() + 1)[unit] % 3
    return list(values[place == 0].mean()), list(values[place > 0].mean())


def heads(run: Run) -> Iterator[Rows]:
    sample = sample_window(run, 16, SEED)
    words, labels = WordTensors.of(sample.words), sample.labels
    spelt = [tuple(row) for row in words.tokens.tolist()]
    unit = np.array([sorted(set(spelt)).index(word) for word in spelt])
    pairs = changed_words(run, 4, SEED)
    for name, model in models(run):
        metric, found = logit_at(END_ID, words.last), list[tuple[list[float], list[float]]]()
        for method in ABLATIONS:
            lost = []
            for together in (1, 2):
                table = ablate(model, words.tokens, words.mask, metric, method, together=together)
                truth = labels[table["word"]]
                right = ((table[c] > 0) == truth for c in ("before", "after"))
                table["lost"] = np.subtract(*(each.astype(float) for each in right))
                table["lost"] = table["lost"].where(table["after"].notna())
                parts = dict(list(table.groupby("part", sort=False)["lost"]))
                lost.append(pd.DataFrame({k: part.to_numpy() for k, part in parts.items()}))
            ends = [pair.split(" + ") for pair in lost[1]]
            sums = np.stack([lost[0][both].sum(axis=1, skipna=False) for both in ends], axis=1)
            found += [sides(each, unit) for each in (*lost, lost[1] - sums)]
        direct = direct_logit_attribution(model, words.tokens, words.last, END_ID)
        wide = direct.pivot(index="word", columns="part", values="value")[direct["part"].unique()]
        found += [sides(wide[side], unit[side]) for side in (labels, ~labels)]
        types = head_types(model, words.tokens, words.mask)
        for kind in TYPES:
            rows = types[types["type"] == kind]
            found.append(sides(rows.pivot(index="word", columns="head", values="score"), unit))
        far = distances(model, words.tokens, words.mask)
        found.append(sides(far.pivot(index="word", columns="head", values="distance"), unit))
        shared = shared_directions(model)  # of two heads, each shares as much as the other
        for side in SIDES.values():
            both = shared.loc[shared["side"] == side, "shared"].repeat(2).tolist()
            found.append(([np.nan] * len(both), both))
        looks = []
        for word, changed in pairs:
            at = len(word) - 1
            table = attention_and_effect(model, word, changed, logit_at(END_ID, at), at)
            parts = table.groupby("part", sort=False)[["attention", "effect"]]
            looks.append([rank_correlation(*rows.to_numpy().T) for _, rows in parts])
        found.append(sides(pd.DataFrame(looks), np.arange(len(pairs))))
        choice, value = (list(chain.from_iterable(side)) for side in zip(*found, strict=True))
        yield {"model": name}, pd.DataFrame({"choice": choice, "value": value})


def patching(run: Run) -> Iterator[Rows]:
    word, vocabulary = member(run, 3), run.language.vocabulary
    others = counterfactuals(run.language, word, 2, SEED)
    clean, corrupted = (
        torch.as_tensor(vocabulary.words(some).tokens) for some in ([word] * len(others), others)
    )
    for name, model in models(run):
        metric, components = logit_at(END_ID, len(word)), components_of(model)
        table = patch(model, clean, corrupted, metric, components)
        keys = ["component", "layer", "head", "position"]
        effect = table.groupby(keys, sort=False)["effect"].mean()
        halves = {
            side: table[table["pair"] % 2 == half].groupby(keys, sort=False)["effect"].mean()
            for half, side in ((0, "choice"), (1, "judged"))
        }
        yield {"model": name}, pd.DataFrame({"effect": effect, **halves}).reset_index()


def circuits(run: Run) -> Iterator[Rows]:
    """Found on two pairs of three, and judged on the third."""
    words = _pairs(run, Circuits(pairs=9, seed=SEED))
    clean, corrupted = (WordTensors.of(run.language.vocabulary.words(some)) for some in words)
    held = np.arange(len(words[0])) % 3 == 2
    for name, model in models(run):
        seen, unseen = (
            Bench(model, clean.tokens[some], corrupted.tokens[some], logit_at(END_ID, at))
            for some in (~held, held)
            for at in [clean.last[some]]
        )
        ends = seen.clean, seen.corrupted, seen.metric
        table = edge_effects(model, *ends, directions=DIRECTIONS)
        scores = edge_scores(table)
        circuit = smallest(seen, scores["exact, noising"], (1 + 0.6) / 2)
        for way in DIRECTIONS:
            names = {method: f"{method}, {way}" for method in ("exact", "EAP", "GIM")}
            names |= {method: method for method in ("EAP-IG", "conductance")}
            by_edge = {method: list(scores[key].values()) for method, key in names.items()}
            inside = [edge in circuit for edge in scores["exact, noising"]]
            where = {"model": name, "direction": way}
            yield where, pd.DataFrame({**by_edge, "circuit": inside})
        quality = asdict(Quality.on(unseen, circuit))
        where = {"finding": "circuit" if name == "trained" else name}
        how_good = {k: quality[k] for k in ("faithfulness", "completeness", "restored")}
        yield where, pd.DataFrame([how_good])
        if name == "trained":
            drawn = random_circuits(unseen.graph, connected(circuit), 16, ANALYSIS_SEED)
            share = unseen.faithfulness(drawn).mean()
            yield {"finding": "random"}, pd.DataFrame([{"faithfulness": share}])
            gaps = incompleteness(unseen, circuit, seed=ANALYSIS_SEED)
            largest = {"largest": gaps["gap"].max(), "sets": len(circuit) + 16}
            yield {"finding": "incompleteness"}, pd.DataFrame([largest])


@dataclass
class Said:
    """The game of a word by hand: the model's log odds of "in", or the truth."""

    run: Run
    truth: bool

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        vocabulary = self.run.language.vocabulary
        if self.truth:
            words = [vocabulary.decode(row) for row in ids]
            return np.array([float(self.run.language.contains(word)) for word in words])
        with torch.no_grad():
            logits = self.run.model()(torch.as_tensor(np.pad(ids, ((0, 0), (1, 0)))))
        return logits[:, -1, END_ID].double().numpy()


def case(run: Run, word: tuple[str, ...], kind: Any, seed: int) -> Case:
    ids = run.language.vocabulary.words([word]).ids[0]
    hidden = replacements(run.language, len(word), kind, 2, seed)
    game = Game(Said(run, False), ids, hidden, on_both_scales)
    truth = Game(Said(run, True), ids, hidden)
    symbols = np.array(sorted(run.language.vocabulary.ids[s] for s in "ab"))
    known = run.language
    effects = [  # of two symbols the other one turns the membership around, or it does not
        known.contains((*word[:i], "ab"[word[i] == "a"], *word[i + 1 :])) != known.contains(word)
        for i in range(len(word))
    ]
    signed = np.array(effects) * (1.0 if known.contains(word) else -1.0)
    rationales = known.rationales(word)
    return Case(game, run.model(), END_ID, len(word), symbols, truth, rationales, signed, 16)


def explanations(run: Run) -> Iterator[Rows]:
    """Random values, the position, the rationale, and the exact values of model and language."""
    word = tuple("abbb")
    asked = case(run, word, "uniform", SEED)
    assert asked.truth is not None
    by_hand = {
        "random": np.random.default_rng(SEED).normal(size=4),
        "position": np.arange(1.0, 5.0),
        "oracle": np.isin(np.arange(4), run.language.rationale(word)).astype(float),
        "language": exact_shapley(asked.truth),
    }
    for name, values in by_hand.items():
        yield {"method": name}, pd.DataFrame({"value": values})
    for scale in ("probability", "log odds"):
        where = {"method": "Shapley exact", "scale": scale}
        yield where, pd.DataFrame({"value": exact_shapley(asked.game.on(scale))})
    for name in ("LIME", "leave one out", "attention", "gradient x input"):
        yield {"method": name}, explain(asked, [name], SEED)[["scale", "estimand", "value"]]


def leaderboard(run: Run) -> Iterator[Rows]:
    wish = Leaderboard(words=2, longest=5, samples=16, draws=2, seed=SEED)
    sample = words_of(run, wish)
    for index, (row, size) in enumerate(zip(sample.words.ids, sample.words.lengths, strict=True)):
        word, seed = run.language.vocabulary.decode(row[:size]), SEED * 1_000_003 + index
        for kind in ("uniform", "data", "fixed"):
            asked = case(run, word, kind, seed)
            scores = judged(asked, explain(asked, None, seed, remember=True), seed)
            columns = ["method", "scale", "AUROC", "error", "fit near", "fit far"]
            columns += ["cosine to the effects", "cosine to the model", "cosine to the language"]
            kept = "members" if run.language.contains(word) else "non-members"
            rows = scores[columns].assign(membership=kept)
            yield {"word": index, "replacement": kind, "method": (*scores["method"],)}, rows


def discovery(run: Run) -> Iterator[Rows]:
    language, symbols = run.language, run.language.vocabulary.symbols
    lines, held = (
        Lines.drawn(language, run.config.max_n, count, SEED, test=test)
        for count, test in ((MOST_LINES, False), (HELD_OUT, True))
    )
    for name, model in models(run):
        search = Search(40, 6, Discovery.queries, SEED)
        induced = induce(judge(model), symbols, lines.words, lines.labels, search)
        dfa = induced.found[0].dfa if induced.found else None
        right = judge(model)(held.words) == held.labels
        where = {"finding": "" if name == "trained" else name}
        yield where, pd.DataFrame([{"network_right": right.mean()}])
        if dfa:
            yield {"model": name}, transitions(dfa, symbols)


@dataclass(frozen=True)
class Contract:
    """The options of a question, and its rows by hand."""

    options: Any
    by_hand: Callable[[Run], Iterator[Rows]]


CONTRACTS = {
    "accuracy": Contract(Accuracy(max_n=6, count=8, seed=SEED), accuracy),
    "probing": Contract(Probing(words=24, seed=SEED), probing),
    "emergence": Contract(Emergence(words=16, count=4, seed=SEED), emergence),
    "interventions": Contract(Interventions(24, 8, seed=SEED), interventions),
    "heads": Contract(Heads(words=16, members=4, seed=SEED), heads),
    "patching": Contract(Patching(n=3, pairs=2, seed=SEED), patching),
    "circuits": Contract(Circuits(pairs=9, goal=0.6, seed=SEED), circuits),
    "explanations": Contract(Explanations("a b b b", samples=16, draws=2, seed=SEED), explanations),
    "leaderboard": Contract(
        Leaderboard(words=2, longest=5, samples=16, draws=2, seed=SEED), leaderboard
    ),
    "discovery": Contract(Discovery(words=40, max_states=6, seed=SEED), discovery),
}


def rows_of(answer: Answer, where: Mapping[str, object], columns: list[str]) -> pd.DataFrame:
    """The rows of an answer, or what stands in its findings under a name."""
    if "finding" in where:
        name = str(where["finding"])
        found = answer.findings[name] if name else answer.findings
        table = pd.DataFrame([found if isinstance(found, Mapping) else {columns[0]: found}])
    else:
        table = answer.table
        for column, value in where.items():
            table = table[table[column].isin(value if isinstance(value, tuple) else [value])]
    return table[columns].reset_index(drop=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", usual())
def test_every_row_is_the_lens_called_by_hand(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyses.questions.inside.probing.SITES", FEW)  # it takes the longest
    contract = CONTRACTS[name]
    answer = question(name).analyse(run, contract.options, quiet)
    by_hand = list(contract.by_hand(run))
    for where, rows in by_hand:
        found = rows_of(answer, where, list(rows.columns))
        pd.testing.assert_frame_equal(
            found,
            rows.reset_index(drop=True),
            check_dtype=False,
            check_names=False,
            obj=str(where),
            **NEAR,
        )
    numbers = [(where, rows.select_dtypes("number").to_numpy(float)) for where, rows in by_hand]
    for (one, x), (other, y) in combinations(numbers, 2):
        # A model this small ends no word later: that the ways to steer differ, and the courses, is
        # seen where a counter is planted, in test_interventions and test_exchanging.
        if "steering" in (one.get("experiment"), other.get("experiment")):
            continue
        if any(str(each.get("measure")).startswith("course") for each in (one, other)):
            continue
        if one.keys() == other.keys() and x.shape == y.shape:
            same = np.allclose(x, y, **NEAR, equal_nan=True)
            assert not same, f"{one} and {other} could be exchanged"
