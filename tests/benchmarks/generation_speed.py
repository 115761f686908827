"""Words that a model makes, against GPT-2 of transformers; a grammar, against nltk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from nltk import ChartParser
from nltk.grammar import CFG
from transformers import GPT2Config, GPT2LMHeadModel

from models.base import build
from models.decoding.choice import Choice
from models.decoding.search import Generator
from models.languages import END_ID, ContextFreeLanguage, Vocabulary, language
from models.model_config import ModelConfig
from models.objectives import objective
from tests.benchmarks.measure import Result, Side, compare

WORDS, SYMBOLS = 100, 40


def generation_speed() -> Iterator[Result]:
    """Two comparisons."""
    yield _drawing()
    yield _membership()


def _drawing() -> Result:
    """Networks of one size draw as many tokens; neither may end a word."""
    config = ModelConfig(n_layers=2, n_heads=4, d_model=64, d_mlp=256, positions="learned")
    model = build(config, Vocabulary(tuple("abcdefgh"))).eval()
    with torch.no_grad():
        model.unembed.linear.weight[END_ID] = 0
        model.unembed.linear.bias[END_ID] = -1e4
    size = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_inner": 256, "vocab_size": 10}
    peer = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=None)).eval()
    maker = Generator(model, objective("next-symbols"), SYMBOLS)
    begun = torch.zeros(WORDS, 1, dtype=torch.long)

    def ours() -> int:
        return sum(len(each.word) for each in maker.sample(WORDS, Choice(temperature=0.9)).words)

    def theirs() -> int:
        made = peer.generate(
            begun,
            attention_mask=torch.ones_like(begun),
            max_new_tokens=SYMBOLS,
            do_sample=True,
            temperature=0.9,
            top_k=0,
            pad_token_id=9,
        )
        return int(made.shape[0] * (made.shape[1] - 1))

    assert ours() == theirs() == WORDS * SYMBOLS
    return compare(
        f"{WORDS} words of {SYMBOLS} symbols drawn",
        Side("ours", "a key-value cache in room that is made once", ours),
        Side("transformers", "GPT-2 of this size, generate with its cache", theirs),
        rounds=7,
    )


def _membership() -> Result:
    """Which of some lines of `nested` are words: members and near misses."""
    known = language("nested")
    assert isinstance(known, ContextFreeLanguage)
    rng = np.random.default_rng(0)
    sample = known.sample(rng, 40, range(3, 16), hard=True)
    lines = [
        list(known.vocabulary.decode(ids[:length]))
        for ids, length in zip(sample.words.ids, sample.words.lengths, strict=True)
    ]
    used = {part for rule in known.grammar.productions for part in rule.right}
    plain = "\n".join(str(rule) for rule in known.grammar.productions)
    parser = ChartParser(CFG.fromstring(plain))

    def ours() -> list[bool]:
        return [bool(label) for label in known.labels(sample.words)]

    def theirs() -> list[bool]:
        return [
            used.issuperset(line) and next(iter(parser.parse(line)), None) is not None
            for line in lines
        ]

    assert ours() == theirs() == sample.labels.tolist()
    return compare(
        "which of 40 lines of nested are words",
        Side("ours", "all lines in one chart of arrays, with what may follow each prefix", ours),
        Side("nltk", "ChartParser, line by line", theirs),
        rounds=7,
    )
