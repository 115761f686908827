"""Sparse dictionaries of a run: the oracle of a plan is perfect, and the command tells what is."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.answers import Answer, Answers, question
from analyses.command_line.app import main
from analyses.options.inside import Dictionary
from analyses.questions.inside import dictionary as module
from analyses.questions.inside.dictionaries.measured import MEASURES, Seen, Site
from analyses.questions.inside.dictionaries.planted import at_site, planted_truth
from analyses.questions.inside.dictionaries.shown import by_fact, with_parts
from analyses.questions.inside.dictionaries.stated import state_truth
from interp.dictionaries.training import Recipe
from models.errors import UserError
from models.languages.grammars.bounded import BOUNDED
from models.languages.vocabulary import END_ID
from models.plants.plans import plan_of
from models.plants.plant import plant, write
from models.plants.record import PLAN
from models.plants.settings import Dials
from models.runs.run import Run
from models.training.loop import train

QUICK = ("--seeds", "2", "--steps", "15", "--words", "150")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("plants")
    return write(plant("majority-10"), folder / "majority")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.create(
        tmp_path_factory.mktemp("runs") / "dyck", tiny_config(language="dyck1", max_n=12)
    )
    train(run, device="cpu")
    return run


def site_of(run: Run, hook: str, words: int = 600) -> Site:
    plan = plan_of(run)
    assert plan is not None
    truth, model = planted_truth(run, plan, words, 0, hook), run.model()
    return Site(model, hook, truth, Seen.at(model, hook, truth), Recipe("topk", 8, 2), range(2))


def scores(site: Site, kind: str) -> dict[str, float]:
    made = next(made for made in site.peers(8) if made.kind == kind)
    rows = site.rows(made, "trained", causal=True)
    return {str(row["measure"]): float(cast(float, row["value"])) for row in rows}


# -- the oracle -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "dials", "hook"),
    [
        ("majority-10", Dials(), "blocks.0.hook_resid_post"),
        ("subsequence-8", Dials(rotate=True), "blocks.1.hook_resid_post"),
        ("histogram-8", Dials(), "blocks.0.hook_mlp_out"),
        ("palindrome-8", Dials(), "blocks.2.hook_resid_post"),
    ],
)
def test_known_directions_are_a_perfect_dictionary(
    tmp_path: Path, program: str, dials: Dials, hook: str
) -> None:
    """1 in every measure: without superposition, the plan's directions are all there is to find."""
    site = site_of(write(plant(program, dials), tmp_path / "plant"), hook)
    found = scores(site, "oracle")
    sparse = found.pop("L0")
    assert found.pop("absorption") == 0
    assert found == pytest.approx(dict.fromkeys(found, 1.0), abs=1e-5)
    assert set(found) | {"L0", "absorption"} == set(MEASURES)
    assert 0 < sparse < len(site.truth.names)


def test_random_directions_are_at_their_chance_level(planted: Run) -> None:
    """The cosine of matched directions is that of 100 draws; moves do nothing of what they
    should."""
    site = replace(site_of(planted, "blocks.0.hook_resid_post"), seeds=range(8))
    chance = {row["measure"]: row["value"] for row in site.chance(8)}
    found = scores(site, "random")
    assert found["MCC"] == pytest.approx(chance["MCC"], abs=0.15)
    assert found["MCC"] < 0.8
    assert found["cause"] < 0.8
    assert found["variance"] < 0.9
    assert chance["cause"] == 0.5


@pytest.mark.torture
def test_with_superposition_known_directions_are_read_by_codes_that_are_not_sparse(
    tmp_path: Path,
) -> None:
    """Twelve directions span eight dimensions: the network sets thresholds on such codes, too."""
    hook = "blocks.0.hook_resid_post"
    found = {
        share: scores(
            site_of(
                write(plant("sort-position-8", Dials(superposed=share)), tmp_path / f"{share}"),
                hook,
            ),
            "oracle",
        )
        for share in (0.0, 0.5)
    }
    assert found[0.5]["F1"] > 0.95
    assert found[0.5]["cause"] > 0.8
    assert found[0.5]["L0"] > 1.5 * found[0.0]["L0"]
    assert 0 < found[0.5]["variance"] < 0.99


# -- truth ----------------------------------------------------------------------------------------


def test_where_the_variables_of_a_plan_are(planted: Run) -> None:
    plan = plan_of(planted)
    assert plan is not None

    def names(hook: str) -> tuple[list[str], int | None]:
        found, half = at_site(plan, hook)
        return [each["name"] for each in found], half

    assert names("blocks.0.hook_resid_pre") == (["tokens"], 0)
    assert names("blocks.0.hook_resid_mid") == (["tokens", "lead"], 1)
    assert names("blocks.0.hook_attn_out") == (["lead"], 1)
    assert names("blocks.0.hook_mlp_out") == (["more a"], 2)
    assert names("blocks.0.mlp.hook_post") == (["tokens", "lead", "more a"], None)
    assert names("hook_embed") == (["tokens", "lead", "more a"], None)


def test_facts_and_moves_of_a_plan_are_those_of_its_words(planted: Run) -> None:
    """Facts by counting, and what is right after a move by the definition of a majority."""
    plan = plan_of(planted)
    assert plan is not None
    truth = planted_truth(planted, plan, 300, 0, "blocks.0.hook_resid_mid")
    assert truth.names == ["tokens = a", "tokens = b", "lead < 0", "lead > 0"]
    ids = planted.language.vocabulary.ids
    for half in (truth.fit, truth.score):
        for word, pos, facts in zip(half.word, half.pos, half.facts, strict=True):
            read = truth.words.tokens[word, 1 : pos + 1].tolist()
            lead = read.count(ids["a"]) - read.count(ids["b"])
            last = read[-1] if read else None
            assert facts.tolist() == [last == ids["a"], last == ids["b"], lead < 0, lead > 0]
    prefixes = [
        {tuple(truth.words.tokens[w, : p + 1].tolist()) for w, p in zip(*half.at, strict=True)}
        for half in (truth.fit, truth.score)
    ]
    assert not prefixes[0] & prefixes[1]
    clamps = truth.clamps
    assert clamps is not None
    assert clamps.answers.tolist() == [END_ID]
    for case in range(len(clamps)):
        word = [t for t in clamps.tokens[case, 1:].tolist() if t != END_ID]
        assert bool(clamps.before[case]) == (word.count(ids["a"]) > word.count(ids["b"]))
        here, on = clamps.at[case] == clamps.read[case], int(clamps.on[case])
        if on in (0, 1) or not here:  # the token counts no more, or another position's lead
            assert bool(clamps.after[case]) == bool(clamps.before[case])
        else:
            assert bool(clamps.after[case]) == (on == 3)


def test_given_values_of_a_program_are_kept() -> None:
    """Whatever lead is given, the verdict follows it."""
    program = plant("majority-10").program
    for word in product("ab", repeat=3):
        plain = program.trace(word)
        for lead in (-1.0, 1.0):
            moved = program.trace(word, {"lead": np.full((4, 1), lead)})
            assert (moved["more a"] == (lead > 0)).all()
            assert (moved["tokens"] == plain["tokens"]).all()
        assert plain["more a"][-1, 0] == BOUNDED["majority-10"].member(word)


def test_the_state_of_a_language_is_the_truth_of_its_runs(trained: Run) -> None:
    truth = state_truth(trained, trained.model(), 200, 0)
    ids, language = trained.language.vocabulary.ids, trained.language
    for word, pos, facts in zip(truth.score.word, truth.score.pos, truth.score.facts, strict=True):
        read = truth.words.tokens[word, 1 : pos + 1].tolist()
        depth = read.count(ids["("]) - read.count(ids[")"])
        held = [name for name, true in zip(truth.names, facts, strict=True) if true]
        assert held == [name for name in truth.names if name == f"depth = {depth}"]
    clamps = truth.clamps
    assert clamps is not None
    names = [language.vocabulary.tokens[i] for i in clamps.answers.tolist()]
    for case in range(len(clamps)):
        depth = int(truth.names[int(clamps.on[case])].removeprefix("depth = "))
        allowed = {name for name, yes in zip(names, clamps.after[case], strict=True) if yes}
        assert (")" in allowed) == (depth > 0)
        assert (names[0] in allowed) == (names[0] != ")" and (names[0] == "(" or depth == 0))


# -- the command ----------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    run, *others = map(str, words)
    assert main(["analyse", run, "dictionary", *others]) == 0
    return capsys.readouterr().out


def test_the_command_on_a_plant(planted: Run, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (planted.path, *QUICK, "--site", "blocks.0.hook_mlp_out", "--width", "4")
    table = pd.read_csv(io.StringIO(told(capsys, *asked, "--csv")))
    assert set(table["measure"]) == set(MEASURES)
    assert set(table["width"]) == {4}
    kinds = ["topk", "batchtopk", "matryoshka", "transcoder"]
    peers = ["PCA", "ICA", "k-means", "random", "neurons", "oracle"]
    assert table[table["model"] == "trained"]["kind"].unique().tolist() == [*kinds, *peers]
    assert table[table["model"] == "untrained"]["kind"].unique().tolist() == kinds
    values = table.set_index(["model", "kind", "width", "measure"])["value"]
    assert values["trained", "neurons", 4, "variance"] == pytest.approx(1, abs=1e-4)
    assert values["trained", "transcoder", 4, "L0"] <= 4
    assert np.isnan(values["untrained", "topk", 4, "MCC"])
    text = told(capsys, *asked)
    assert "kept from before" in text
    assert "transcoder" in text
    found = json.loads(told(capsys, *asked, "--json"))
    assert found["findings"]["facts"] == ["more a"]
    assert {row["kind"] for row in found["findings"]["features"]} == set(kinds)
    assert all("[" in row["words"] for row in found["findings"]["features"] if row["on"] > 0)
    kept = planted.results / "dictionary-1"
    assert sorted(path.suffix for path in kept.iterdir()) == [".html", ".json", ".parquet", ".svg"]
    answer = Answers(planted.path, "dictionary").latest()
    assert answer is not None
    rows = question("dictionary").shown(answer)["latents"]
    assert list(rows) == ["kind", "width", "latent", "on", "fact", "F1", "words", "off", "up"]
    compared = question("dictionary").headline(answer).set_index(["of", "variable"])["value"]
    assert len(compared) == len(answer.table)
    for (model, kind, _, measure), value in values.items():
        assert compared[model, f"{kind}, {measure}"] == pytest.approx(value, nan_ok=True)


def test_clamping_the_latent_of_the_verdict_changes_it(planted: Run) -> None:
    """k-means of what the MLP writes has two clusters, for yes and no: set to yes everywhere, the
    words of a no change, and the other way round."""
    from analyses.questions.inside.dictionaries.features import features

    site = site_of(planted, "blocks.0.hook_mlp_out")
    made = next(made for made in site.peers(2) if made.kind == "k-means")
    found = sorted(features(site, made), key=lambda row: str(row["fact"]) * bool(row["F1"]))
    logits = site.model(site.truth.words.tokens)
    yes = site.model.margins(logits, site.truth.words.tokens, site.truth.words.last) > 0
    rows = np.unique(site.truth.score.word)[:100]
    share = float(yes[torch.as_tensor(rows)].float().mean())
    best = max(found, key=lambda row: float(str(row["F1"])))
    assert best["F1"] == 1.0
    assert best["up"] == pytest.approx(1 - share, abs=1e-6)


def test_the_command_on_a_trained_run(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, trained.path, *QUICK, "--kinds", "topk", "--width", "6", "--again")
    assert "untrained" in text
    assert "Nothing inside this network is claimed" in text


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--site", "blocks.0.hook_resid"), "unknown site"),
        (("--kinds", "transcoder"), "a transcoder says what an MLP writes"),
        (("--site", "blocks.0.attn.hook_pattern"), "has 3 axes beside the words"),
        (("--seeds", "0"), "--seeds is 0"),
        (("--width", "0"), "--width is 0"),
    ],
)
def test_mistakes_are_one_line(
    planted: Run, words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", str(planted.path), "dictionary", *QUICK, *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert fault in said[0]


def test_a_site_where_nothing_varies_is_refused(tmp_path: Path) -> None:
    run = write(plant("induction-8"), tmp_path / "plant")
    with pytest.raises(UserError, match=r"nothing that is known varies at blocks.0.hook_mlp_out"):
        module._dictionaries(run, Dictionary(site="blocks.0.hook_mlp_out", words=60))


def test_a_damaged_plan_is_told(planted: Run, tmp_path: Path) -> None:
    other = write(plant("depth-10"), tmp_path / "plant")
    path = other.path / PLAN
    content = json.loads(path.read_text())
    for wrong in (
        "{",
        json.dumps(content | {"program": "majority-10"}),
        json.dumps(content | {"variables": content["variables"][1:]}),
        (planted.path / PLAN).read_text(),
    ):
        path.write_text(wrong)
        with pytest.raises(UserError, match=r"plant (it|the network) again"):
            plan_of(other)


def test_latents_are_told_beyond_directions_that_know_nothing() -> None:
    rows = [
        ("trained", "topk", 0.9, 0.8),
        ("trained", "batchtopk", 0.99, 0.98),
        ("trained", "PCA", 0.3, np.nan),
        ("trained", "random", 0.3, 0.2),
        ("untrained", "topk", 0.3, 0.2),
        ("chance", "chance", 0.3, np.nan),
    ]
    table = pd.DataFrame(rows, columns=["model", "kind", "value", "low"])
    table = table.assign(high=1.0, measure="F1", width=4, seeds=5)
    found = {"facts": ["depth = 1"], "positions": 100}

    def grade(row: int | None = None) -> str:
        made = table.assign(value=table["value"].where(table.index != row, 0.85))
        (claim,) = module.claims(Answer(made, findings=found))
        assert claim.finding.startswith("The best latents of topk")
        return claim.grade

    assert grade() == "holds"
    assert grade(2) == "fragile"
    assert {grade(row) for row in (3, 4, 5)} == {"no better than its controls"}


# -- what a page shows ----------------------------------------------------------------------------


def test_every_fact_has_the_latent_that_its_score_is_of(trained: Run) -> None:
    """The mean over facts is F1 of the table."""
    asked = Dictionary(kinds=("topk",), width=(6,), seeds=1, steps=15, words=150)
    found = module._dictionaries(trained, asked)
    told = pd.DataFrame(found.findings["told"])
    assert told["fact"].tolist() == found.findings["facts"]
    values = found.table.set_index(["model", "kind", "measure"])["value"]
    assert told["F1"].mean() == pytest.approx(values["trained", "topk", "F1"], abs=1e-6)
    shown = by_fact(told, pd.DataFrame(found.findings["features"]))
    off = {row["latent"]: row["off"] for row in found.findings["features"]}
    wanted = [off.get(latent, np.nan) for latent in told["latent"]]
    assert shown["off"].tolist() == pytest.approx(wanted, nan_ok=True)


def test_a_fact_stands_beside_the_variable_that_it_is_about(tmp_path: Path) -> None:
    """A name may begin as another does. A variable without facts has a row."""
    plan = plan_of(write(plant("majority-10", Dials(copies="both")), tmp_path / "plant"))
    assert plan is not None
    facts = ["tokens = a", *(v["name"] for v in plan["variables"] if v["name"] != "tokens")][:3]
    table = pd.DataFrame({"fact": facts, "latent": [2, 0, 1], "F1": 1.0})
    shown = with_parts(table, plan, "blocks.0.hook_resid_post").set_index("variable")
    here = [v["name"] for v in at_site(plan, "blocks.0.hook_resid_post")[0]]
    assert shown.index.tolist() == here
    assert shown["made by"].tolist() == [
        v["made by"] for v in plan["variables"] if v["name"] in here
    ]
    assert shown["fact"].tolist() == facts + ["-"] * (len(here) - 3)
    assert shown["latent"].tolist()[:3] == [2, 0, 1]


def test_an_answer_stands_in_the_list_of_all(
    planted: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, planted.path, *QUICK, "--kinds", "topk", "--width", "3")
    assert main(["show", str(planted.path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "dictionary: Not proven: the best latents of topk tell facts" in said
    assert "no better than its controls" in said
