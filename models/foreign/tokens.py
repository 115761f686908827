"""The tokens that are the symbols of words, and those that stand around a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from models.errors import UserError, unknown

MOST_SYMBOLS = 60
"""The most symbols of an alphabet."""
SPECIAL = re.compile(
    r"[<\[]\|?((?P<begin>bos|s|begin|start)|(?P<end>eos|/s|end|endoftext)"
    r"|pad|unk|mask|cls|sep)\|?[>\]]",
    re.IGNORECASE,
)
"""Names of tokens that are no symbols, such as <s>, </s>, [BOS] and <|endoftext|>."""


def listed(names: Sequence[str], size: int) -> Any:
    """A tokenizer of these names, in the order of their numbers.

    Args:
        size: the tokens that the network knows.

    Raises:
        UserError: there are more or fewer names than tokens, or a name stands twice.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    if len(names) != size:
        raise UserError(
            f"--vocabulary has {len(names)} names, and the network knows {size} tokens: name all "
            "of them in the order of their numbers, with spaces between them"
        )
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--vocabulary names {twice!r} twice: give every token a name of its own")
    special = [(name, match) for name in names if (match := SPECIAL.fullmatch(name))]
    around = {
        f"{token}_token": next((name for name, match in special if match[side]), None)
        for token, side in (("bos", "begin"), ("eos", "end"))
    }
    # Without merges, text that is no name falls into known letters, or into nothing.
    letters = Tokenizer(BPE(vocab={name: number for number, name in enumerate(names)}, merges=[]))
    return PreTrainedTokenizerFast(
        tokenizer_object=letters,
        additional_special_tokens=[name for name, _ in special],
        **{option: name for option, name in around.items() if name},
    )


def border(
    tokenizer: Any, given: str | None, option: str, default: int | None, named: Any
) -> tuple[str, int]:
    """The token before or after a word: the one given; else the tokenizer's; else the one that the
    configuration names (the first, if it names several)."""
    if given is not None:
        return given, _token(tokenizer, given)
    first = named[0] if isinstance(named, list) and named else named
    number = first if default is None else default
    token = None if number is None else tokenizer.convert_ids_to_tokens(number)
    if token is None:
        raise UserError(f"the folder names no {option} token: name one with --{option}")
    return str(token), int(number)


def _token(tokenizer: Any, symbol: str) -> int:
    """The number of a symbol that is one token: as it stands in the vocabulary, or as text."""
    vocabulary = tokenizer.get_vocab()
    if symbol in vocabulary:
        return int(vocabulary[symbol])
    cut = tokenizer.encode(symbol, add_special_tokens=False)
    unknowns = {tokenizer.unk_token_id, vocabulary.get(_unknown(tokenizer))} - {None}
    parts = tokenizer.convert_ids_to_tokens(cut)
    if len(cut) > 1 and unknowns.isdisjoint(cut):
        raise UserError(
            f"the tokenizer cuts {symbol!r} into {len(cut)} tokens ({', '.join(parts)}): name "
            "symbols that are one token each"
        )
    if not unknowns.isdisjoint(cut) or not cut:
        if len(vocabulary) <= MOST_SYMBOLS:
            raise unknown("symbol", symbol, sorted(vocabulary, key=vocabulary.__getitem__))
        raise UserError(f"the tokenizer does not know {symbol!r}: name one of its tokens")
    return int(cut[0])


def _unknown(tokenizer: Any) -> str | None:
    """The token that stands for unknown text: a folder may name it in tokenizer.json alone, and it
    may be the one that ends a word."""
    inside = getattr(tokenizer, "backend_tokenizer", None)
    return getattr(getattr(inside, "model", None), "unk_token", None)


def alphabet(
    tokenizer: Any, given: Sequence[str], around: set[int], size: int
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The symbols and their tokens.

    Args:
        around: the tokens before and after a word, which are no symbols.
        size: the tokens that the network knows.
    """
    special = around | set(tokenizer.all_special_ids)
    by_number = sorted((number, token) for token, number in tokenizer.get_vocab().items())
    symbols = tuple(given) or tuple(token for n, token in by_number if n not in special)
    if not 0 < len(symbols) <= MOST_SYMBOLS:
        fault = f"{len(symbols)} symbols are named"
        if not given:
            fault = f"the tokenizer has {len(symbols)} tokens that are not special"
        raise UserError(f"{fault}: name those of the words with --symbols, {MOST_SYMBOLS} at most")
    ids = tuple(_token(tokenizer, symbol) for symbol in symbols)
    for index, (symbol, number) in enumerate(zip(symbols, ids, strict=True)):
        if number in around:
            raise UserError(f"{symbol!r} begins or ends a word: it can be no symbol, leave it out")
        if number in ids[:index]:
            raise UserError(f"{symbol!r} is the same token as another symbol: drop one")
    if (most := max(*ids, *around)) >= size:
        ends = "name the first and the last token of a word with --begin and --end"
        cure = ends if most in around else "save network and tokenizer together"
        raise UserError(
            f"the tokenizer gives the number {most}, and the network knows {size} tokens: {cure}"
        )
    return symbols, ids
