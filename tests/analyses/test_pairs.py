"""Runs on pairs: the question of alignment, one pair, and whether targets are right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of

from analyses.answers import Answer, answer, question
from analyses.command_line.app import main
from analyses.options.behaviour import Targets
from analyses.options.parts import Alignment
from analyses.questions.behaviour import targets
from analyses.questions.parts import alignment, one_pair
from interp.heads.alignment import aligned
from interp.statistics import wilson
from models.base import LanguageModel
from models.decoding.choice import Choice
from models.decoding.search import Generator
from models.errors import UserError
from models.languages import END, Sample, Transduction
from models.runs.run import Run
from models.training.evaluation import judge
from models.training.loop import train

KINDS = ["encoder-decoder", "lstm-attention", "lstm-encoder-decoder", "transformer"]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """A run on pairs, trained a little; the same one for the same request."""
    known: dict[tuple[str, str], Run] = {}

    def make(kind: str = "encoder-decoder", name: str = "sort") -> Run:
        if (kind, name) not in known:
            folder = tmp_path_factory.mktemp("pairs") / f"{kind}-{name}"
            config = tiny_config(
                model=tiny_of(kind), language=name, objective="sequence-to-sequence", max_n=8
            )
            known[kind, name] = Run.create(folder, config)
            train(known[kind, name], "cpu")
        return known[kind, name]

    return make


OPTIONS = Alignment(words=12, donors=2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_lens_stands_beside_its_controls(kind: str, run_of: Callable[..., Run]) -> None:
    found = alignment.analyse(run_of(kind), OPTIONS)
    table = found.table.set_index(["model", "of", "part"])
    assert ("none", "control", alignment.DIAGONAL) in table.index
    assert ("trained", "effect", alignment.SYMBOL) in table.index
    reads = kind in ("encoder-decoder", "lstm-attention")
    assert (("trained", "effect", alignment.READING) in table.index) == reads
    attends = kind != "lstm-encoder-decoder"
    assert (("trained", "attention", alignment.ALL) in table.index) == attends
    assert len(alignment.QUESTION.claims(found)) == 1 + attends
    for column in ("choice", "auroc", "hit"):
        assert found.table[column].between(0, 1).all()
    assert (found.table["low"] <= found.table["auroc"]).all()
    assert (found.table["auroc"] <= found.table["high"]).all()
    assert question("alignment").chart(found).to_dict()
    numbers = question("alignment").headline(found)
    assert numbers["value"].notna().any()


def test_scores_are_of_the_model_that_they_name(
    run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trained model that shows the truth, and an untrained one that shows the opposite."""
    run = run_of()
    trained = run.model().state_dict()["embed.weight"]

    def show(run: Run, model: LanguageModel, pair: alignment.Pair, donors: object) -> object:
        sign = 1.0 if torch.equal(model.state_dict()["embed.weight"], trained) else -1.0
        perfect = sign * pair.truth.astype(float)
        return {
            ("attention", "L1H0"): perfect,
            ("attention", alignment.ALL): perfect,
            ("effect", alignment.SYMBOL): perfect,
        }

    monkeypatch.setattr(alignment, "look", show)
    found = alignment.analyse(run, Alignment(words=30, donors=1))
    rows = found.table.set_index(["model", "of", "part"])["auroc"]
    for part in (("attention", "L1H0"), ("attention", alignment.ALL), ("effect", alignment.SYMBOL)):
        assert rows["trained", *part] == 1.0
        assert rows["untrained", *part] == 0.0
    # Of another pair the truth says less: what is left is what the lengths tell.
    assert 0.3 < rows["none", "control", alignment.ELSEWHERE] < 0.9
    best, effect = alignment.QUESTION.claims(found)
    elsewhere = rows["none", "control", f"L1H0 on {alignment.ELSEWHERE}"]
    assert elsewhere == rows["none", "control", alignment.ELSEWHERE]
    assert (best.value, best.controls["the untrained network's best"]) == (1.0, 0.0)
    assert best.controls[f"L1H0 on {alignment.ELSEWHERE}"] == elsewhere
    assert effect.controls[f"{alignment.SYMBOL} on {alignment.ELSEWHERE}"] == elsewhere


def test_the_diagonal_is_perfect_where_pairs_copy(run_of: Callable[..., Run]) -> None:
    pairs = alignment.pairs_of(run_of(name="copy"), 10, 0)
    for pair in pairs:
        assert aligned(pair.diagonal, pair.truth) == (1.0, 1.0)
    backwards = alignment.pairs_of(run_of(name="reverse"), 10, 0)
    for pair in backwards:
        assert aligned(-pair.diagonal, pair.truth)[0] > aligned(pair.diagonal, pair.truth)[0]


def test_a_pair_knows_where_its_symbols_are_decided(run_of: Callable[..., Run]) -> None:
    language = run_of(name="reverse").language
    assert isinstance(language, Transduction)
    pair = alignment.Pair.of(language, tuple("abc>cba"))
    assert (list(pair.keys), list(pair.queries)) == ([1, 2, 3], [4, 5, 6])
    assert pair.truth.tolist() == np.eye(3, dtype=bool)[::-1].tolist()
    assert [language.vocabulary.tokens[token] for token in pair.right] == ["c", "b", "a"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_pair_shows_truth_attention_and_effects(kind: str, run_of: Callable[..., Run]) -> None:
    run = run_of(kind)
    word = one_pair.pair_of(run, "c a b")
    assert word == tuple("cab>abc")
    assert one_pair.pair_of(run, "cab > zz") == word
    table = one_pair.one_pair(run, word)
    truth = table[table["of"] == "truth"].pivot(index="target", columns="source", values="value")
    assert truth.to_numpy().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert table["shown"].between(0, 1).all()
    assert table.groupby("part").size().eq(9).all()
    parts = list(dict.fromkeys(table["part"]))
    assert one_pair.chart(table, parts).to_dict()
    for source in ("", "x"):
        with pytest.raises(UserError, match=r"is no source of sort: type one|unknown symbol"):
            one_pair.pair_of(run, source)


# -- whole targets ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_free_running_is_greedy_and_right_as_often_as_forced(
    kind: str, run_of: Callable[..., Run]
) -> None:
    run = run_of(kind)
    model, language = run.model(), run.language
    asked = targets._asked_of(run, 1.0, 3, 0)
    for each in asked[:4]:
        forced = targets._forced(model, run.objective, each)
        running = targets._running(model, run.objective, each)
        inside = each.targets >= 0
        whole = [((own == each.targets) | ~inside).all(axis=1) for own in (forced, running)]
        assert whole[0].tolist() == whole[1].tolist()
        for row in range(len(running)):
            source = language.vocabulary.decode(each.words.ids[row, : each.source + 1])
            longest = each.source + 1 + each.targets.shape[1]
            generator = Generator(model, run.objective, longest, source)
            made = generator.sample(1, Choice(temperature=0.0)).words[0]
            tokens = language.vocabulary.decode(running[row])
            end = tokens.index(END) if END in tokens else len(tokens)
            assert made.word[each.source + 1 :][: len(tokens)] == tokens[:end]


def test_the_table_by_hand(run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is right but at the second place, where it says END for ever."""
    run = run_of()
    trained = run.model().state_dict()["embed.weight"]

    def said(model: LanguageModel, objective: object, asked: targets._Asked) -> np.ndarray:
        made = asked.targets.copy()
        if not torch.equal(model.state_dict()["embed.weight"], trained):
            return np.zeros_like(made)
        made[:, 1] = 1
        return made

    def alone(model: LanguageModel, objective: object, asked: targets._Asked) -> np.ndarray:
        made = said(model, objective, asked)
        made[:, 1:] = np.where(made[:, :1] > 0, 1, made[:, 1:])
        return made

    monkeypatch.setattr(targets, "_forced", said)
    monkeypatch.setattr(targets, "_running", alone)
    table = targets._targets(run, Targets(windows=1.0, count=8))
    rows = table.set_index(["model", "group"])
    assert rows.loc[("trained", 5)][["exact", "alone"]].tolist() == [0.0, 0.0]
    assert rows.loc[("trained", 5), "forced"] == pytest.approx(5 / 6)
    assert rows.loc[("trained", 5), "running"] == pytest.approx(2 / 6)  # the first, and END
    assert rows.loc[("untrained", 5)][["exact", "forced", "running"]].tolist() == [0.0] * 3
    assert rows.loc[("another source", 5), "exact"] < 1
    by_place = targets._targets(run, Targets("place", count=8)).set_index(["model", "group"])
    trained_rows = by_place.loc["trained"]
    assert trained_rows.loc[1, ["exact", "forced", "running"]].tolist() == [1.0, 1.0, 1.0]
    assert trained_rows.loc[3, ["exact", "running"]].tolist()[0] == 0.0
    assert trained_rows.loc[3, "forced"] == 1.0
    assert trained_rows["pairs"].is_monotonic_decreasing
    for found in (rows, by_place):
        own = found.loc["trained"]
        assert own["lost"].tolist() == pytest.approx((own["forced"] - own["running"]).tolist())
        assert ((own["lost_low"] <= own["lost"]) & (own["lost"] <= own["lost_high"])).all()


def test_the_commonest_target_and_what_lies_in_the_window(run_of: Callable[..., Run]) -> None:
    run = run_of()
    window = run.language.length_of(run.config.max_n)
    asked = targets._asked_of(run, 2.0, 8, 0)
    true = [tuple(row[row >= 0]) for each in asked for row in each.targets]
    common = Counter(true).most_common(1)[0][1]
    table = targets._targets(run, Targets(count=8)).set_index(["model", "group"])
    for name in ("trained", *targets.CONTROLS):
        own = table.loc[name]
        assert round((own["commonest"] * own["pairs"]).sum()) == common
        inside = [float((each.words.lengths <= window).mean()) for each in asked]
        assert own["in_window"].tolist() == inside
        assert 0 < own["in_window"].mean() < 1


def of_targets(exact: list[float], untrained: float, commonest: float) -> pd.DataFrame:
    """A table made by hand: 50 pairs of each length, the last of them beyond the window."""
    own = pd.DataFrame({"group": range(1, len(exact) + 1), "exact": exact, "model": "trained"})
    others = [own.assign(model=n, exact=untrained) for n in targets.CONTROLS]
    table = pd.concat([own, *others], ignore_index=True)
    table[["low", "high"]] = [wilson(round(50 * share), 50) for share in table["exact"]]
    table["in_window"] = 1.0 * (table["group"] < len(exact))
    table = table.assign(by="length", pairs=50, commonest=commonest)
    return table.assign(lost=0.2, lost_low=0.1, lost_high=0.3)


NO = "no better than its controls"


@pytest.mark.parametrize(
    ("exact", "untrained", "commonest", "grades"),
    [
        ([0.9, 0.9, 1.0], 0.0, 0.1, ["holds", "holds"]),
        ([1.0, 0.2, 0.2], 0.0, 0.2, ["fragile", NO, "holds"]),
        ([0.6, 0.6, 0.6], 0.0, 0.55, [NO, NO, "holds"]),
        ([0.6, 0.6, 0.9], 0.7, 0.0, [NO, "holds", "holds"]),
        ([0.0, 0.0, 0.0], 0.0, 0.0, [NO, NO, "holds"]),
    ],
)
def test_targets_are_held_against_those_that_know_no_source(
    exact: list[float], untrained: float, commonest: float, grades: list[str]
) -> None:
    table = of_targets(exact, untrained, commonest)
    found = targets.QUESTION.claims(Answer(table))
    assert [claim.grade for claim in found] == grades
    inside, beyond = found[:2]
    assert (inside.value, inside.n) == (pytest.approx(sum(exact[:2]) / 2), 100)
    assert (beyond.value, beyond.n) == (exact[2], 50)
    alone = ["Alone it is not shown at source length 2."]
    assert list(inside.doubts) == alone * (grades[0] == "fragile")
    # one that is always right at the last length loses nothing there
    assert (len(found) == 3) == (exact[2] < 1)
    # by place: where half of the pairs end
    placed = table.assign(by="place", in_window=1.0, pairs=[50, 30, 10] * 3)
    (first, *_) = targets.QUESTION.claims(Answer(placed))
    assert (first.value, first.n) == (pytest.approx(exact[1]), 30)
    assert "up to place 2" in first.short


def test_the_numbers_that_are_compared_over_seeds_are_those_of_the_table(
    run_of: Callable[..., Run],
) -> None:
    table = targets._targets(run_of("lstm-attention"), Targets(windows=1.0, count=6))
    compared = targets.QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    assert len(compared) == 2 * len(table)
    for row in table.itertuples():
        assert compared[f"whole targets, length {row.group}", row.model] == row.exact
        assert compared[f"tokens after its own, length {row.group}", row.model] == row.running
    assert (
        " of the targets are right in the training window"
        in targets.QUESTION.claims(Answer(table))[0].sentence
    )
    assert targets.QUESTION.chart(Answer(table)).to_dict()
    assert targets._side_by_side(table).columns[:2].tolist() == ["source", "pairs"]


def test_the_command(run_of: Callable[..., Run], capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of()
    words = ["analyse", str(run.path), "targets", "--count", "4", "--windows", "1"]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = targets._targets(run, Targets(windows=1.0, count=4))
    assert pd.DataFrame(said["table"])["forced"].tolist() == pytest.approx(
        expected["forced"].tolist()
    )
    assert main([*words, "--by", "place", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("model,by,group")
    assert main([*words, "--windows", "0"]) == 2
    assert "--windows is 0" in capsys.readouterr().err


def test_rows_of_tags_are_those_that_the_network_is_sure_of(tmp_path: Path) -> None:
    """Its margin of a whole row is positive if each tag is the likeliest one. Beside it stand the
    tags that symbols have most often in the training, counted here in dictionaries."""
    config = tiny_config(
        model=tiny_of("transformer", mask="bidirectional"),
        language="depths",
        objective="tags",
        max_n=6,
        steps=60,
    )
    run = Run.create(tmp_path / "tags", config)
    train(run, "cpu")
    options = Targets(windows=1.0, count=12)
    table = targets._targets(run, options).set_index(["model", "group"])
    rng, lang = np.random.default_rng(5), run.language
    words = lang.sample(rng, 4000, lang.lengths(6), True, "train").words
    tags = dict[str, Counter[str]]()
    for source, target in map(lang.split, lang.vocabulary.decoded(words)):
        for symbol, tag in zip(source, target, strict=True):
            tags.setdefault(symbol, Counter())[tag] += 1
    commonest = {symbol: counts.most_common(1)[0][0] for symbol, counts in tags.items()}
    for sample in targets._asked_of(run, 1.0, 12, 0):
        pairs = [lang.split(word) for word in lang.vocabulary.decoded(sample.words)]
        assert [len(source) for source, _ in pairs] == [sample.source] * len(pairs)
        members = Sample(sample.words, np.ones(len(pairs), dtype=bool))
        _, accepted, _ = judge(run.model(), lang, members, run.objective)
        right = table.loc[("trained", sample.source)]
        assert right["exact"] == pytest.approx(accepted.mean())
        assert right["forced"] == right["running"] >= right["exact"]
        hits = [[commonest[s] == t for s, t in zip(*pair, strict=True)] for pair in pairs]
        known = table.loc[(targets.COMMONEST, sample.source)]
        assert known["running"] == pytest.approx(np.mean(hits))
        assert known["exact"] == pytest.approx(np.mean([all(row) for row in hits]))
    claims = targets._claims(targets._targets(run, options))
    assert [claim.finding.split("{}")[1][:24] for claim in claims] == [
        *(" of the rows of tags are", " of the single tags are "),
    ]
    assert all("each symbol's commonest tag" in claim.controls for claim in claims)


def test_what_has_no_pairs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.create(tmp_path / "run", tiny_config())
    train(run, "cpu")
    assert main(["analyse", str(run.path), "targets"]) == 2
    assert "anbn has no pairs of a source and a target" in capsys.readouterr().err
    with pytest.raises(UserError, match="anbn has no pairs of a source and a target"):
        answer(run, "alignment", OPTIONS)


def test_a_tagger_says_nothing_of_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.create(
        tmp_path / "run",
        tiny_config(
            model=tiny_of("transformer", mask="bidirectional"),
            language="copy",
            objective="tags",
            max_n=6,
        ),
    )
    train(run, "cpu")
    assert main(["predict", str(run.path), "a b > a b", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["next"] is None for step in steps] == [False, False, True, True, True]


def test_nothing_is_predicted_of_the_source(
    run_of: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    """The teacher first speaks at the border: "may follow: nothing" was said of the source."""
    path = str(run_of(name="copy").path)
    assert main(["predict", path, "a b > a"]) == 0
    assert capsys.readouterr().out.count("not taught") == 2
    assert main(["predict", path, "a b > a", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["next"] is None for step in steps] == [True, True, False, False]
