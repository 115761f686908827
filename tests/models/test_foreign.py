"""Networks of others: their verdicts against ``transformers`` itself, and folders that are odd."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_networks import CONTEXT, KINDS, VOCABULARY, made, saved
from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

from analyses.command_line.app import main
from models.errors import UserError
from models.foreign import folder as folders
from models.foreign.folder import read
from models.foreign.network import Asked
from models.objectives.readout import Reads

CPU = torch.device("cpu")
WORDS = [word for n in range(6) for word in product("ab", repeat=n)]


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(made("gpt2"), tmp_path_factory.mktemp("foreign") / "random")


@pytest.mark.parametrize("reads", ["softmax", "sets"])
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_transformers(kind: str, reads: Reads, tmp_path: Path) -> None:
    """Symbol by symbol, one word at a time, without the bridge. A threshold in the middle makes
    both verdicts common, and shows that END and every symbol count."""
    model, least = made(kind), 0.2
    network = read(saved(model, tmp_path / kind), Asked(least=least, reads=reads), CPU)
    assert (network.symbols, network.begin, network.end) == (("a", "b"), ("<s>", 0), ("</s>", 1))
    assert network.room == CONTEXT - 1
    expected = []
    for word in WORDS:
        ids = [0, *(VOCABULARY[symbol] for symbol in word), 1]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0]
        likely = logits.softmax(dim=-1) >= least if reads == "softmax" else logits.sigmoid() > 0.5
        expected.append(bool(likely[range(len(ids) - 1), ids[1:]].all()))
    assert network(WORDS).tolist() == expected
    assert set(expected) == {True, False}


def test_drawn_words_follow_the_network(random: Path) -> None:
    """How often each token comes first, within four standard errors."""
    network = read(random, Asked(), CPU)
    words = network.drawn(2000, 2, seed=1)
    assert words == network.drawn(2000, 2, seed=1) != network.drawn(2000, 2, seed=2)
    assert {len(word) for word in words} == {0, 1, 2}
    with torch.no_grad():
        chances = network.model(torch.tensor([[0]]))[0, 0, [1, 3, 4]].softmax(dim=-1).numpy()
    firsts = [word[0] if word else "" for word in words]
    shares = np.array([firsts.count(first) for first in ("", "a", "b")]) / len(words)
    assert (abs(shares - chances) < 4 * np.sqrt(chances * (1 - chances) / len(words))).all()


def test_words_of_sets_are_drawn_evenly(random: Path) -> None:
    """Among the symbols and the end that may come first, within four standard errors; and a word is
    cut where nothing may come."""
    network = read(random, Asked(reads="sets"), CPU)
    words = network.drawn(2000, 4, seed=1)
    with torch.no_grad():
        may = network.model(torch.tensor([[0]]))[0, 0, [1, 3, 4]].numpy() > 0
    firsts = [word[0] if word else "" for word in words]
    shares = np.array([firsts.count(first) for first in ("", "a", "b")]) / len(words)
    expected = may / may.sum()
    assert 0 < may.sum() < 3
    assert (abs(shares - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(words))).all()
    never = replace(network, model=lambda tokens: torch.full((*tokens.shape, 5), -1.0))
    assert never.drawn(3, 4, seed=0) == [()] * 3


@pytest.mark.parametrize(
    ("kind", "reads"),
    [("multi_label_classification", "sets"), ("single_label_classification", "softmax")],
)
def test_a_folder_may_say_how_to_read(
    kind: str, reads: Reads, random: Path, tmp_path: Path
) -> None:
    folder = changed(random, tmp_path, lambda folder: edit(folder, CONFIG, problem_type=kind))
    network = read(folder, Asked(), CPU)
    assert (network.reads, network.trial) == (reads, None)
    other = read(folder, Asked(reads="softmax"), CPU)
    assert (other.reads, other.trial) == ("softmax", None)


def bare(folder: Path) -> None:
    """No file of a tokenizer."""
    for path in folder.glob("tokenizer*"):
        path.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_names_stand_in_for_a_tokenizer(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    model = made(kind)
    model.save_pretrained(folder)
    with pytest.raises(UserError, match="has no tokenizer: name the network's 5 tokens in the ord"):
        read(folder, Asked(), CPU)
    network = read(folder, Asked(vocabulary="<s> </s> <unk> a b", least=0.2), CPU)
    assert (
        network(WORDS).tolist() == read(saved(model, folder), Asked(least=0.2), CPU)(WORDS).tolist()
    )
    assert (network.symbols, network.ids) == (("a", "b"), (3, 4))
    assert (network.begin, network.end) == (("<s>", 0), ("</s>", 1))


@pytest.mark.parametrize(
    ("names", "more", "begin", "end", "symbols"),
    [
        ("a [EOS] [ [BOS] leeuw", {}, "[BOS]", "[EOS]", ("a", "[", "leeuw")),
        ("x y <pad> a b", {}, "x", "y", ("a", "b")),  # those of the configuration
        ("x y z a b", {"begin": "z", "end": "b", "symbols": ("a",)}, "z", "b", ("a",)),
    ],
)
def test_begin_end_and_symbols_are_picked_among_the_names(
    names: str,
    more: dict[str, Any],
    begin: str,
    end: str,
    symbols: tuple[str, ...],
    random: Path,
    tmp_path: Path,
) -> None:
    network = read(changed(random, tmp_path, bare), Asked(vocabulary=names, **more), CPU)
    number = {name: index for index, name in enumerate(names.split())}
    assert network.symbols == symbols
    assert network.ids == tuple(number[symbol] for symbol in symbols)
    assert (network.begin, network.end) == ((begin, number[begin]), (end, number[end]))


def test_random_weights_are_others_and_change_no_seed(random: Path) -> None:
    network = read(random, Asked(), CPU)
    before = torch.get_rng_state()
    tokens = torch.tensor([[0, 3, 4]])
    with torch.no_grad():
        taught, first, again, other = (
            one.model(tokens) for one in (network, *(network.untaught(seed) for seed in (1, 1, 2)))
        )
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, taught)


def test_a_word_beyond_the_context_is_not_accepted(random: Path) -> None:
    network = read(random, Asked(least=1e-6), CPU)
    assert network([("a",) * network.room, ("a",) * (network.room + 1), ()]).tolist() == [
        *(True, False, True)
    ]


def test_tokens_may_be_named(random: Path) -> None:
    network = read(random, Asked(("b",), begin="a", end="<s>", least=0.3), CPU)
    assert (network.symbols, network.ids, network.begin, network.end) == (
        *(("b",), (4,), ("a", 3), ("<s>", 0)),
    )


def test_the_tokens_of_the_configuration_stand_in(random: Path, tmp_path: Path) -> None:
    """A tokenizer may have none of its own."""
    folder = changed(random, tmp_path, lambda folder: edit(folder, TOKENIZER, bos=None, eos=None))
    network = read(folder, Asked(("a", "b")), CPU)
    assert (network.begin, network.end) == (("<s>", 0), ("</s>", 1))


# -- folders that are odd -------------------------------------------------------------------------

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer_config.json", "model.safetensors"


def changed(folder: Path, where: Path, change: Callable[[Path], object]) -> Path:
    """A changed copy of a folder."""
    copy = Path(shutil.copytree(folder, where / "copy"))
    change(copy)
    return copy


def edit(folder: Path, name: str, **values: object) -> None:
    """Changes a file of JSON: "bos" and "eos" stand for their tokens; None removes a key."""
    path = folder / name
    content = json.loads(path.read_text())
    for key, value in values.items():
        key = f"{key}_token" if key in ("bos", "eos") else key
        content[key] = value
        if value is None:
            del content[key]
    path.write_text(json.dumps(content))


def cut(folder: Path) -> None:
    """As a download that broke off."""
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:5000])


def no_numbers(folder: Path) -> None:
    model = made("gpt2")
    with torch.no_grad():
        model.transformer.ln_f.bias.fill_(torch.nan)
    model.save_pretrained(folder)


def no_numbers_later(folder: Path) -> None:
    """From the sixth token on: the weights are numbers, and their sum is none."""
    model = made("gpt2")
    with torch.no_grad():
        model.transformer.wpe.weight[5:] = 3e38
    model.save_pretrained(folder)


def nan_later(folder: Path) -> None:
    """A position that a short word does not reach."""
    model = made("gpt2")
    with torch.no_grad():
        model.transformer.wpe.weight[5:] = torch.nan
    model.save_pretrained(folder)


def parted(folder: Path, part: str) -> None:
    """Weights in parts, one of which the index names otherwise."""
    made("gpt2").save_pretrained(folder, max_shard_size="20KB")
    (folder / WEIGHTS).unlink(missing_ok=True)
    index = json.loads((folder / folders.INDEX).read_text())
    index["weight_map"]["transformer.wte.weight"] = part
    (folder / folders.INDEX).write_text(json.dumps(index))


def fewer_weights(folder: Path) -> None:
    """One more layer than there are weights of."""
    edit(folder, CONFIG, n_layer=3)


def pickled(folder: Path) -> None:
    """The same weights as a pickle, and nothing else."""
    torch.save({}, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def bidirectional(folder: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = BertConfig(vocab_size=5, intermediate_size=8, max_position_embeddings=16, **sizes)
    BertForMaskedLM(config).save_pretrained(folder)


def two_sided(folder: Path) -> None:
    sizes = {"d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(vocab_size=5, **sizes)).save_pretrained(folder)


def more_tokens(folder: Path) -> None:
    """The tokenizer of a larger network."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["c"] = 5
    path.write_text(json.dumps(content))


def unknown_is_end(folder: Path) -> None:
    """The tokenizer reads unknown text as the end of a word."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_token"] = "</s>"
    path.write_text(json.dumps(content))


FAULTS: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "missing": (shutil.rmtree, (), "is no folder"),
    "no config": (lambda f: (f / CONFIG).unlink(), (), "cannot read .*config.json"),
    "no JSON": (lambda f: (f / CONFIG).write_text("{"), (), "is no JSON"),
    "deep": (lambda f: (f / CONFIG).write_text("[" * 99_999), (), "is no JSON"),
    "no object": (lambda f: (f / CONFIG).write_text("[]"), (), "is no JSON object"),
    "pickle alone": (pickled, (), "no .*safetensors"),
    "code": (lambda f: edit(f, CONFIG, auto_map={"A": "b.C"}), (), "code of its own"),
    "code of tokens": (lambda f: edit(f, TOKENIZER, auto_map={"A": ["b.C"]}), (), "of its own"),
    "a run": (lambda f: (f / "run.json").write_text("{}"), (), "lab analyse .* discovery"),
    "adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), (), "an adapter"),
    "unknown type": (lambda f: edit(f, CONFIG, model_type="nosuch"), (), "type 'nosuch', no kind"),
    "type of no text": (lambda f: edit(f, CONFIG, model_type=["gpt2"]), (), "no kind of network"),
    "a text for a number": (lambda f: edit(f, CONFIG, n_embd="8"), (), "config.json .*its n_embd"),
    "no heads": (lambda f: edit(f, CONFIG, n_head=-2), (), "num_attention_heads is -2"),
    "layers below none": (lambda f: edit(f, CONFIG, n_layer=-1), (), "num_hidden_layers is -1"),
    "spread below none": (lambda f: edit(f, CONFIG, initializer_range=-1.0), (), "ange is -1"),
    "no words": (lambda f: edit(f, CONFIG, vocab_size=0), (), "vocab_size is 0"),
    "unknown act": (lambda f: edit(f, CONFIG, activation_function="x"), (), "or of a new kind"),
    "odd token": (lambda f: edit(f, TOKENIZER, bos_token=5), (), "the tokenizer cannot be read"),
    "too deep": (lambda f: edit(f, CONFIG, n_layer=10**9), (), "layers: choose one with 1000"),
    "too wide": (lambda f: edit(f, CONFIG, n_positions=10**12), (), "takes about .* GiB"),
    "two sides": (two_sided, (), "type t5, no causal"),
    "reads ahead": (bidirectional, (), "depends on later ones"),
    "broken weights": (cut, (), "cannot be read"),
    "no numbers": (no_numbers, (), "answers with no numbers"),
    "a weight that is no number": (nan_later, (), "answers with no numbers"),
    "no numbers later": (no_numbers_later, (), "no numbers to words of [5-9] symbols"),
    "outside": (lambda f: parted(f, "../x.safetensors"), (), "names '../x.safetensors', no"),
    "a pickle as a part": (lambda f: parted(f, "evil.bin"), (), "names 'evil.bin', no .*safetens"),
    "a part is missing": (lambda f: parted(f, "m-9.safetensors"), (), "'m-9.* put the file"),
    "a part is no name": (lambda f: parted(f, ["x"]), (), "names .'x'., no"),
    "own weights": (lambda f: edit(f, CONFIG, transformers_weights="x.bin"), (), "rename the file"),
    "quantised": (lambda f: edit(f, CONFIG, quantization_config={}), (), "quantised network"),
    "heads of no width": (lambda f: edit(f, CONFIG, n_head=5), (), "does not divide among its"),
    "fewer weights": (fewer_weights, (), "lacks 12 of the weights"),
    "other shapes": (lambda f: edit(f, CONFIG, n_positions=30), (), "have the shape"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").write_text("{"), (), "cannot be read"),
    "more tokens": (more_tokens, (), "save network and tokenizer together"),
    "no begin": (lambda f: [edit(f, TOKENIZER, bos=None), edit(f, CONFIG, bos_token_id=None),
                            (f / "generation_config.json").unlink()], (), "no begin token"),
    "unknown is the end": (unknown_is_end, ("--symbols", "a", "c"), "unknown symbol 'c'"),
    "unknown symbol": (str, ("--symbols", "a", "c"), "unknown symbol 'c'"),
    "two tokens": (str, ("--symbols", "a", "a b"), r"cuts 'a b' into 2 tokens \(a, b\)"),
    "empty symbol": (str, ("--symbols", "a", ""), "unknown symbol ''"),
    "twice": (str, ("--symbols", "a", "a"), "same token as another"),
    "end as symbol": (str, ("--symbols", "a", "</s>"), "begins or ends a word"),
    "unknown end": (str, ("--end", "z"), "unknown symbol 'z'"),
    "too long": (str, ("--length", str(CONTEXT)), "words of 24 symbols at most"),
    "nothing to cut with": (bare, (), "has no tokenizer: name the network's 5 .*--vocabulary"),
    "too few names": (bare, ("--vocabulary", "<s> </s> a b"), "4 names, and .* knows 5 tokens"),
    "two names": (bare, ("--vocabulary", "<s> </s> a b a"), "names 'a' twice"),
    "unknown begin": (bare, ("--vocabulary", "<s> </s> a b c", "--begin", "z"), "symbol 'z'"),
    "no end": (lambda f: [bare(f), edit(f, CONFIG, eos_token_id=None),
                          (f / "generation_config.json").unlink()],
               ("--vocabulary", "<s> x a b c"), "names no end token"),
    "never": (str, ("--least", "0"), "--least is 0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line(
    fault: str, random: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, options, said = FAULTS[fault]
    folder, out = changed(random, tmp_path, change), tmp_path / "out"
    assert main(["rule", "--model", str(folder), "--out", str(out), *options]) == 2
    found = capsys.readouterr()
    assert not found.out
    assert len(found.err.splitlines()) == 1
    assert not out.exists()
    assert re.search(said, found.err), found.err


def test_many_tokens_have_to_be_named(random: Path, tmp_path: Path) -> None:
    def many(folder: Path) -> None:
        vocabulary = VOCABULARY | {f"w{i}": 5 + i for i in range(61)}
        saved(made("gpt2", d_vocab=len(vocabulary)), folder, vocabulary)

    folder = changed(random, tmp_path, many)
    with pytest.raises(UserError, match=r"^the tokenizer has 63 tokens that are not special: name"):
        read(folder, Asked(), CPU)
    assert read(folder, Asked(("a", "w7")), CPU).ids == (3, 12)
    with pytest.raises(UserError, match=r"^61 symbols are named: name"):
        read(folder, Asked(tuple(f"w{i}" for i in range(61))), CPU)
    with pytest.raises(UserError, match=r"^the tokenizer does not know 'z'"):
        read(folder, Asked(("z",)), CPU)


@pytest.mark.parametrize(
    "name", ["special_tokens_map.json", "tokenizer.json", "model.safetensors", "vocab.txt"]
)
def test_what_is_no_plain_file_is_not_waited_for(name: str, random: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(random, tmp_path / "network"))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(UserError, match=rf"{name} is not a plain file: save the network anew"):
        read(folder, Asked(), CPU)


@pytest.mark.parametrize("name", ["chat_template.jinja", "additional_chat_templates/x.jinja"])
def test_templates_without_an_end_are_not_read(name: str, random: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(random, tmp_path / "network"))
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    os.truncate(folder / name, 2**30)  # takes no room on the disk
    with pytest.raises(UserError, match=f"{name} has 1024 MiB, far too many"):
        read(folder, Asked(), CPU)


def test_weights_that_no_network_has_are_not_read(random: Path, tmp_path: Path) -> None:
    """Fifteen GiB of nothing were read, until the memory was too small."""
    folder = Path(shutil.copytree(random, tmp_path / "network"))
    os.truncate(folder / "model.safetensors", 15 * 2**30)
    with pytest.raises(UserError, match=r"has weights of 15\.0 GiB for a network of at most"):
        read(folder, Asked(), CPU)


def test_a_network_beyond_the_memory_is_not_read(
    random: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.foreign.folder.memory", lambda: 1000.0)
    with pytest.raises(UserError, match=r"takes about 0.0 GiB, and this machine has 0.0: choose"):
        read(random, Asked(), CPU)


def test_a_bridge_that_says_something_else_is_not_trusted(
    random: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TransformerLens 4.3 does so for Phi."""
    bridged = folders.bridged
    monkeypatch.setattr(folders, "bridged", lambda model: bridged(made("llama")))
    with pytest.raises(UserError, match=r"says something else through TransformerLens than"):
        read(random, Asked(), CPU)


def test_no_network_is_reached(random: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the weights nor for the tokenizer."""

    def refused(*args: object) -> None:
        raise AssertionError(f"a connection was opened: {args}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert read(random, Asked(), CPU).room == CONTEXT - 1
