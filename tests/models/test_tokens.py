"""Tokenisers against byte-pair encoding in ten lines, and the truth of tokens against all words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_config
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UserError
from models.languages import END, Word, language
from models.languages.language import Language
from models.languages.regular import RegularLanguage
from models.languages.tokens import TokenisedLanguage, Tokeniser, tokenised
from models.languages.tokens.tokeniser import BLANK, Text, learnt, merges_of, texts_of
from models.runs.run import TOKENS, Run, run_name
from models.training.loop import train

PIPER = "Peter Piper picked a peck of pickled peppers"


def joined(tokens: Word, pair: tuple[str, str]) -> Word:
    """The pair made one token wherever it stands, from the left."""
    out: list[str] = []
    while tokens:
        both = tokens[:2] == pair
        out.append("".join(tokens[: 1 + both]))
        tokens = tokens[1 + both :]
    return tuple(out)


def counted(parts: Counter[Word]) -> Counter[tuple[str, str]]:
    """Counts of neighbouring pairs, where each part comes so often."""
    counts: Counter[tuple[str, str]] = Counter()
    for part, times in parts.items():
        for pair in pairwise(part):
            counts[pair] += times
    return counts


def merged(parts: Counter[Word], merges: Iterable[tuple[str, str]]) -> Counter[Word]:
    """The parts after merges, each of which is of a pair that is the most frequent."""
    for pair in merges:
        counts = counted(parts)
        assert counts[pair] == max(counts.values())
        parts = Counter({joined(part, pair): times for part, times in parts.items()})
    return parts


@cache
def tokenised_language(name: str, vocabulary: str) -> TokenisedLanguage:
    found = tokenised(language(name), vocabulary)
    assert isinstance(found, TokenisedLanguage)
    return found


@pytest.mark.parametrize("merges", range(1, 9))
def test_peter_piper(merges: int) -> None:
    """Each merge is of a pair that is the most frequent, as brute force counts them. How ties are
    broken is the library's own affair."""
    text = " ".join(word + BLANK for word in PIPER.lower().split())
    found = Tokeniser(learnt([text], set(text) - {" "}, merges), spelled=True)
    parts = merged(Counter(map(tuple, text.split())), found.merges)
    assert Counter(found.cut(word) for word in text.split()) == parts
    assert found.merges[0] == ("p", "e")


def test_a_text_of_the_reader() -> None:
    """By hand: pe stands in Piper, peck and twice in peppers; ck in picked, peck and pickled. Six
    pairs then stand twice. The library takes the one whose tokens come first in its table."""
    found = Tokeniser.learn(Text(f"  {PIPER} \n"), "bpe:3")
    assert found.merges == [("p", "e"), ("c", "k"), ("d", BLANK)]
    assert found.encode(("picked", "Peter")) == (*"pi", "ck", "e", "d_", *"Peter_")
    assert set(found.tokens) - {"pe", "ck", "d_"} == set(PIPER.replace(" ", BLANK))


@given(st.text(alphabet="aab ", min_size=1, max_size=60).filter(str.strip))
def test_merges_of_any_text(line: str) -> None:
    """All merges that a text holds make each of its words one token, and none crosses a blank."""
    words = line.split()
    letters = set("".join(words)) | {BLANK}
    most = learnt([" ".join(word + BLANK for word in words)], letters, 100)
    found = Tokeniser.learn(Text(line), f"bpe:{most.get_vocab_size() - len(letters)}")
    assert all(BLANK not in token[:-1] for token in found.tokens)
    assert found.encode(words) == tuple(word + BLANK for word in words)
    assert merged(Counter(tuple(word + BLANK) for word in words), found.merges)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (" \n", "no letters: write"),
        ("ab " * 700, "2100 letters: give at most 2000"),
        ("snake_case", "a word of your text holds '_'"),
        ("<end> of it", "'<end>' is taken already"),
        ("aap", "words of your text hold only 3 merges: choose bpe:3"),
    ],
)
def test_texts_that_are_refused(line: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        Tokeniser.learn(Text(line), "bpe:9")


@pytest.mark.parametrize("name", ["dieren", "nested", "anbn", "parity"])
def test_merges_are_those_of_brute_force(name: str) -> None:
    known = language(name)
    found = Tokeniser.learn(known, "bpe:16")
    texts = texts_of(known, found.spelled)
    merged(Counter(tuple(part) for text in texts for part in text.split()), found.merges)
    assert len(found.tokens) == len(Tokeniser.learn(known, "characters").tokens) + 16
    assert found.merges[:4] == Tokeniser.learn(known, "bpe:4").merges


@pytest.mark.parametrize("name", ["dieren", "nested", "linear"])
def test_merges_never_cross_a_blank(name: str) -> None:
    found = Tokeniser.learn(language(name), "bpe:32")
    assert all(BLANK not in token[:-1] for token in found.tokens)


@given(data=st.data(), merges=st.sampled_from(["characters", "bpe:3", "bpe:16"]))
@pytest.mark.parametrize("name", ["dieren", "anbn", "lt2"])
def test_tokens_spell_the_word_that_was_cut(name: str, data: st.DataObject, merges: str) -> None:
    known = tokenised_language(name, merges)
    symbols = st.sampled_from(known.base.vocabulary.symbols)
    word = tuple(data.draw(st.lists(symbols, max_size=12)))
    tokens = known.tokeniser.encode(word)
    assert known.tokeniser.decode(tokens) == word
    assert known.decoded(tokens) == word
    assert known.vocabulary.parse(" ".join(word)) == tokens
    assert known.vocabulary.parse(" ".join(tokens)) == tokens
    assert known.contains(tokens) == known.base.contains(word)


# -- the truth ----------------------------------------------------------------------------------


def members(base: Language, longest: int) -> list[Word]:
    """All members up to a length; of equal blocks up to a far greater one."""
    symbols = base.vocabulary.symbols
    if not isinstance(base, RegularLanguage):
        return [tuple(s for s in symbols for _ in range(n)) for n in range(1, 60)]
    words = [w for n in range(longest + 1) for w in product(symbols, repeat=n)]
    right = base.labels(base.vocabulary.words(words))
    return [word for word, is_in in zip(words, right, strict=True) if is_in]


def three_words() -> RegularLanguage:
    """Sentences of words that begin alike."""
    words = {"de": "0", "den": "1", "een": "2"}
    short = RegularLanguage.from_regex("short", "0(1|2)*20?", "012")
    dfa = short.dfa
    rows = {
        q: {w: row[letter] for w, letter in words.items()} for q, row in dfa.transitions.items()
    }
    spelled = type(dfa)(
        states=dfa.states,
        input_symbols=set(words),
        transitions=rows,
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )
    return RegularLanguage("three words", spelled, tuple(words))


CASES = {
    # the vocabulary, letters up to which all tokens are tried, symbols of the longest members
    "anbn": ("bpe:6", 12, 0),
    "anbncn": ("bpe:5", 8, 0),
    "parity": ("bpe:6", 6, 13),
    "tomita3": ("bpe:6", 6, 13),
    "first": ("bpe:5", 6, 13),
    "three words": ("bpe:5", 11, 7),
    "three words in letters": ("characters", 9, 7),
}


@pytest.mark.parametrize("name", CASES)
def test_truth_of_all_tokens(name: str) -> None:
    """Membership and next tokens of every row of tokens, against the list of all members."""
    vocabulary, letters, longest = CASES[name]
    base = three_words() if name.startswith("three") else language(name)
    known = tokenised(base, vocabulary)
    assert isinstance(known, TokenisedLanguage)
    assert known.knows_next
    codes = {known.tokeniser.encode(word) for word in members(base, longest)}
    follow: dict[Word, set[str]] = {}
    for code in codes:
        for at in range(len(code) + 1):
            follow.setdefault(code[:at], set()).add(code[at] if at < len(code) else END)
    rows, grown = [()], [()]
    while grown:
        new = product(grown, known.vocabulary.symbols)
        grown = [(*row, token) for row, token in new if len("".join(row) + token) <= letters]
        # A faulty row stays faulty: its longer ones need not all be tried.
        grown = [row for row in grown if row[:-1] in follow]
        rows += grown
    words = known.vocabulary.words(rows)
    allowed, labels, traced = known.allowed(words), known.labels(words), known.trace(words)
    of_base = {
        code: base.state(known.decoded(code) or ()) for code in list(codes)[:200] if code in rows
    }
    for number, row in enumerate(rows):
        may = set(known.vocabulary.decode(np.flatnonzero(allowed[number, len(row)])))
        assert may == follow.get(row, set()), row
        assert labels[number] == (row in codes), row
        if row in of_base:
            state = {key: values[number, len(row)] for key, values in traced.items()}
            assert state == of_base[row]
    assert labels.any()
    apart = sorted({tuple("".join(code)) for code in codes if len("".join(code)) <= letters})
    right = known.labels(known.vocabulary.words(apart))  # letter by letter
    assert right.tolist() == [word in codes for word in apart]


@pytest.mark.parametrize(("name", "vocabulary"), [("nested", "bpe:8"), ("dieren", "bpe:12")])
def test_drawn_words_are_those_of_the_language(name: str, vocabulary: str) -> None:
    known = tokenised_language(name, vocabulary)
    assert known.knows_next
    drawn = known.sample(np.random.default_rng(3), 40, known.lengths(12))
    same = known.base.sample(np.random.default_rng(3), 40, known.base.lengths(12))
    assert (drawn.words.ids == known.encoded(same.words).ids).all()
    assert (known.labels(drawn.words) == drawn.labels).all()
    one = known.sample(np.random.default_rng(3), 10, [30], True)
    assert (one.words.lengths == 30).all()
    assert known.labels(one.words).all()
    # Along a member each next token is allowed, and END at its end; a misspelled word is outside.
    allowed = known.allowed(one.words)
    following = np.take_along_axis(allowed[:, :-1], one.words.ids[..., None], 2)
    assert following.all()
    assert allowed[:, -1, known.vocabulary.ids[END]].all()
    assert not known.contains(known.vocabulary.parse("leen"))


def test_a_counterfactual_has_as_many_tokens() -> None:
    known = tokenised_language("dieren", "bpe:16")
    word = known.vocabulary.parse("leeuw aap aap olifant leeuw")
    other = known.counterfactual(word)
    assert len(other) == len(word)
    assert known.contains(word)
    assert not known.contains(other)
    with pytest.raises(LookupError, match="none that the tokeniser gives"):
        known.counterfactual(known.vocabulary.parse("leuw"))


# -- runs ---------------------------------------------------------------------------------------


def test_a_run_keeps_its_tokeniser(tmp_path: Path) -> None:
    config = replace(tiny_config(), vocabulary="bpe:4")
    run = Run.create(tmp_path / run_name(config), config)
    assert run.name.startswith("anbn-bpe-4-")
    train(run, "cpu")
    again = Run(run.path)
    kept = again.language
    assert isinstance(kept, TokenisedLanguage)
    assert kept.tokeniser.merges == Tokeniser.learn(language("anbn"), "bpe:4").merges
    assert kept.vocabulary.symbols == tuple(again.model().vocabulary.symbols)
    file = run.path / TOKENS
    other = json.loads(file.read_text())
    other["model"]["merges"] = other["model"]["merges"][:2]
    bad = (
        json.dumps(other).encode(),
        b"",
        b"\xff",
        Tokeniser.learn(language("anbn"), "bpe:6").content,
    )
    for content in bad:
        file.write_bytes(content)
        for ask in (lambda run: run.language, Run.model_hash):
            with pytest.raises(UserError, match=rf"^[^\n]*{TOKENS}[^\n]*not the file[^\n]*$"):
                ask(Run(run.path))
    file.unlink()
    with pytest.raises(UserError, match=TOKENS):
        Run(run.path).model_hash()


def test_a_damaged_file_is_one_line() -> None:
    for content in (b"", b"{}", b"\xff", b'{"model": 3}'):
        with pytest.raises(UserError, match=r"^here is no file of a tokeniser \([^\n]*$"):
            Tokeniser.read(content, spelled=False, where="here")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"vocabulary": "bpe"}, "choose words, characters, or bpe:16"),
        ({"vocabulary": "bpe:0"}, "between 1 and"),
        ({"vocabulary": "bpe:٣"}, "choose words"),
        ({"language": "dieren", "vocabulary": "bpe:64"}, "only 35 merges: choose bpe:35"),
        ({"language": "copy", "vocabulary": "bpe:4"}, "copy has pairs"),
        ({"language": "wwr", "vocabulary": "bpe:4"}, "choose --objective verdict"),
    ],
)
def test_what_cannot_be_cut_is_refused(tmp_path: Path, change: dict[str, str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        Run.create(tmp_path / "run", replace(tiny_config(), **change))
    assert not (tmp_path / "run").exists()


def test_letters_without_a_known_next_token_are_judged_as_whole_words() -> None:
    known = tokenised_language("wwr", "bpe:8")
    assert not known.knows_next
    drawn = known.sample(np.random.default_rng(0), 200, known.lengths(12))
    assert (known.labels(drawn.words) == drawn.labels).all()
    assert known.base.contains(tuple("abba"))
    assert not known.contains(tuple("abba"))  # the tokeniser gives longer tokens
    assert known.contains(known.tokeniser.cut("abba"))


def test_the_number_of_merges() -> None:
    assert [merges_of(each) for each in ("words", "characters", "bpe:16")] == [None, 0, 16]
