"""A language model of one's own lines: its loss on lines set aside, and what is not asked of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_config

from analyses.answers import answer
from analyses.command_line.app import main
from analyses.options.behaviour import Perplexity
from analyses.questions.behaviour import counts
from analyses.questions.behaviour.perplexity import CONTROLS, _perplexity
from models.base import build
from models.errors import UserError
from models.languages import UnlabelledCorpus
from models.model_config import ModelConfig
from models.objectives import objective
from models.runs.run import Run
from models.training.loop import train

TRIGRAM = CONTROLS[1]


def sentences(count: int = 500) -> str:
    """Lines whose verb agrees with a noun that a trigram does not see."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(count):
        noun, verb = [("kat", "slaapt"), ("katten", "slapen"), ("ik", "slaap")][rng.integers(3)]
        between = rng.choice(["heel", "erg", "zeer", "zo"], rng.integers(2, 5))
        lines.append(" ".join([noun, *between, verb]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "lines.txt").write_text(sentences())
    config = tiny_config(language="lines", objective="language-model", steps=400)
    made = Run.create(folder / "run", config, folder / "lines.txt")
    train(made, "cpu")
    return made


def test_the_loss_is_that_of_the_lines_set_aside(run: Run) -> None:
    """PyTorch's cross-entropy, line by line; and the lab's own n-gram, taught the other lines."""
    corpus, taught = run.language, objective("language-model")
    assert isinstance(corpus, UnlabelledCorpus)
    table = _perplexity(run, Perplexity(count=100))
    ids = np.unique(corpus.lines.ids[corpus.side("test")], axis=0)
    aside = {corpus.vocabulary.decode(row[row != 1]) for row in ids}
    ngram = build(ModelConfig(architecture="ngram", order=3, output="softmax"), corpus.vocabulary)
    batch = taught.batch(corpus, corpus.lines[corpus.side("train")])
    ngram.count(batch.tokens, batch.target, batch.weight)
    assert aside < set(corpus.vocabulary.decoded(corpus.lines))
    models = {"trained": run.model(), TRIGRAM: ngram.eval()}
    for name, model in models.items():
        losses = []
        for word in aside:
            tokens = torch.tensor([[0, *(corpus.vocabulary.ids[symbol] for symbol in word)]])
            logits = model(tokens)[0].detach()
            if name == "trained":  # BOS never comes next
                logits[:, 0] = -torch.inf
            following = torch.tensor([*tokens[0, 1:].tolist(), 1])
            losses += torch.nn.functional.cross_entropy(logits, following, reduction="none")
        rows = table[table["model"] == name]
        mean = (rows["kl"] * rows["tokens"]).sum() / rows["tokens"].sum()
        assert mean == pytest.approx(float(torch.stack(losses).mean()), abs=1e-5)
        assert rows["words"].sum() == len(aside)
    assert table[["entropy", "best", "forbidden"]].isna().all().all()
    assert set(table["model"]) == {"trained", *CONTROLS[:2]}


def test_counts_before_a_symbol_are_those_of_the_n_gram(run: Run) -> None:
    """In every context, seen or not, also of symbols that never came there."""
    taught, corpus = objective("language-model"), run.language
    ngram = build(ModelConfig(architecture="ngram", order=3, output="softmax"), corpus.vocabulary)
    assert isinstance(corpus, UnlabelledCorpus)
    batch = taught.batch(corpus, corpus.lines[corpus.side("train")])
    ngram.count(batch.tokens, batch.target, batch.weight)
    rng = np.random.default_rng(0)
    symbols = corpus.vocabulary.symbols
    words = corpus.vocabulary.words([tuple(rng.choice(symbols, 7)) for _ in range(30)])
    said = counts.before(run)(words, np.ones_like(words.tokens, dtype=bool))
    with torch.no_grad():
        other = ngram.eval()(torch.as_tensor(words.tokens)).double().log_softmax(dim=-1)
    np.testing.assert_allclose(said, other.numpy(), atol=1e-5)


def test_what_needs_other_lines_is_refused_in_one_line(run: Run) -> None:
    for name in ("accuracy", "heads", "patching", "circuits", "explanations", "discovery"):
        with pytest.raises(UserError, match=r"learned lines without labels, .*: ask perplexity"):
            answer(run, name)
    with pytest.raises(UserError, match="has no trees: ask by length"):
        answer(run, "perplexity", Perplexity(by="depth"))


def test_a_network_after_one_step_is_told_nothing_good(run: Run, tmp_path: Path) -> None:
    kept = run.corpus_bytes()
    assert kept is not None
    (tmp_path / "lines.txt").write_bytes(kept)
    config = tiny_config(language="lines", objective="language-model", steps=1)
    one = Run.create(tmp_path / "run", config, tmp_path / "lines.txt")
    train(one, "cpu")
    sentence = answer(one, "perplexity")[0].sentence
    assert sentence.startswith("Not proven") or "does not know" in sentence
    assert answer(run, "perplexity")[0].sentence.startswith("It loses less than its controls")


def test_lines_of_ones_own_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text(sentences())
    assert (
        main(["train", "--corpus", "mine.txt", *["--objective", "language-model", "--steps", "60"]])
        == 0
    )
    assert "lines set aside: a loss of" in capsys.readouterr().out
    assert main(["analyse", "runs/mine-lm-s0"]) == 0
    told = capsys.readouterr().out
    assert "nats a token, on" in told
    assert "different lines that were set aside" in told
    assert main(["generate", "runs/mine-lm-s0", "--count", "5"]) == 0
    assert "are lines of the file" in capsys.readouterr().out
    assert main(["predict", "runs/mine-lm-s0", "kat heel heel slaapt"]) == 0
    assert "may follow" in capsys.readouterr().out
