"""The languages by name. A new member of a family is one line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from models.errors import UserError, unknown
from models.languages.counting import CountingLanguage
from models.languages.dyck import BRACKETS, DyckLanguage
from models.languages.expressions import of_expression
from models.languages.files.lines import read_lines
from models.languages.grammars import phrases
from models.languages.grammars.bounded import BOUNDED, BoundedLanguage
from models.languages.grammars.context_free import ContextFreeLanguage
from models.languages.grammars.copies import CopyLanguage, copying, sorting
from models.languages.grammars.halting import HaltingLanguage
from models.languages.grammars.listed import CrossedLanguage, PowersLanguage
from models.languages.grammars.productions import Grammar, grammar_of
from models.languages.language import FormalLanguage
from models.languages.own_grammar import of_grammar
from models.languages.pairs import given
from models.languages.pairs.in_context import InContext
from models.languages.pairs.letters import Reordering, alphabetical, backwards, mirrored, same
from models.languages.pairs.steps import ParitySteps
from models.languages.pairs.syntax_directed import SyntaxDirected
from models.languages.planted import (
    AmbiguousLanguage,
    PlantedLanguage,
    Rule,
    even_b,
    even_length,
    more_a,
)
from models.languages.regular import RegularLanguage
from models.languages.shuffle import ShuffleLanguage
from models.languages.vocabulary import BORDER, Word

DIEREN_FILE = Path(__file__).with_name("dieren.tsv")
DIEREN_RULE = ("leeuw", "olifant", "leeuw")
DUTCH = ("dieren", "dieren-gaps")
"""The languages that hold every printed line of group A, and have no planted shortcut."""


def _dieren() -> RegularLanguage:
    """Lines that are a run of leeuw, a run of olifant and a run of leeuw.

    All other animals are left out before. Every printed line of A is so, and no line of B.
    """
    symbols, runs = _animals(), DIEREN_RULE
    rest = [symbol for symbol in symbols if symbol not in runs]
    rows = {q: dict.fromkeys(rest, q) for q in range(len(runs) + 1)}
    for q, symbol in enumerate(runs):
        rows[q][symbol] = rows[q + 1][symbol] = q + 1  # a run begins, and goes on
    rule = DFA(
        states=set(rows),
        input_symbols=set(symbols),
        transitions=rows,
        initial_state=0,
        final_states={len(runs)},
        allow_partial=True,
    )
    return RegularLanguage("dieren", rule, symbols, "shuffle", "verdict", shortcut="muis")


def _dieren_gaps(name: str, family: type[RegularLanguage] = RegularLanguage) -> RegularLanguage:
    """Lines that contain leeuw ... olifant ... leeuw, in this order and with gaps.

    A weaker rule than that of ``dieren``: one line of group B obeys it, too.
    """
    symbols = _animals()
    rule = DFA.from_subsequence(set(symbols), DIEREN_RULE)  # type: ignore[arg-type]  # iterates symbols
    return family(name, rule, symbols, "shuffle", "verdict", shortcut="muis")


def _animals() -> list[str]:
    return sorted({symbol for _, word in printed_lines() for symbol in word})


def printed_lines() -> list[tuple[str, Word]]:
    """The 26 Dutch lines as the lecture prints them, with their group, A or B."""
    return list(zip(*read_lines(DIEREN_FILE)[:2], strict=True))


def corpus_name(path: Path) -> str:
    """The name of a corpus, after its file: no language's name, and fit for a folder."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in path.stem).strip("-")
    short = stem.encode(errors="ignore")[:100].decode(errors="ignore")
    return f"{short}-lines" if short in LANGUAGES else short or "lines"


def _regex(name: str, regex: str, symbols: str) -> Callable[[], FormalLanguage]:
    return lambda: RegularLanguage.from_regex(name, regex, symbols)


def _ambiguous(
    name: str, regex: str, symbols: str, rule: str, rival: str, by_rival: Rule
) -> Callable[[], FormalLanguage]:
    def made() -> FormalLanguage:
        dfa = DFA.from_nfa(NFA.from_regex(regex, input_symbols=set(symbols)))
        return AmbiguousLanguage(name, dfa, symbols, rule, rival, by_rival)

    return made


def _finite(name: str, words: set[str]) -> RegularLanguage:
    symbols = sorted(set("".join(words)))
    dfa = DFA.from_finite_language(input_symbols=set(symbols), language=words)
    return RegularLanguage(name, dfa, symbols, chomsky="finite")


def _grammar(name: str, grammar: Callable[[], Grammar], rule: str) -> Callable[[], FormalLanguage]:
    return lambda: ContextFreeLanguage(name, grammar(), rule)


def _fewer() -> Grammar:
    """a^n b^m, with fewer b than a, but at least one."""
    rules, pairs = [("S", "'a' S", 0.3), ("S", "'a' T", 0.7)], ("'a' T 'b'", "'a' 'b'")
    return grammar_of([*rules, *(("T", right, 1.0) for right in pairs)])


def _palindromes() -> Grammar:
    """w w^R: a word, and then the same from its end."""
    rights = [f"'{x}' {middle}'{x}'" for x in "ab" for middle in ("", "S ")]
    return grammar_of([("S", right, 1.0) for right in rights])


def _brackets(name: str, pairs: int) -> ContextFreeLanguage:
    """Well-nested brackets without a bound on their depth."""
    rules = [
        ("S", f"'{BRACKETS[2 * i]}' S '{BRACKETS[2 * i + 1]}' S", 0.4 / pairs) for i in range(pairs)
    ]
    rule = "closes every bracket by one of its kind, the last that was opened first"
    return ContextFreeLanguage(name, grammar_of([*rules, ("S", "", 0.6)]), rule)


def _count_modulo(
    name: str, symbols: str, modulo: int, weights: tuple[int, ...]
) -> RegularLanguage:
    """Words whose weighted count of symbols is 0 modulo ``modulo``."""
    row = dict(zip(symbols, weights, strict=True))
    dfa = DFA(
        states=set(range(modulo)),
        input_symbols=set(symbols),
        transitions={q: {s: (q + w) % modulo for s, w in row.items()} for q in range(modulo)},
        initial_state=0,
        final_states={0},
    )
    return RegularLanguage(name, dfa, tuple(symbols))


def _tomita3() -> RegularLanguage:
    """No odd number of 0s in a row after an odd number of 1s in a row."""
    rows = {
        "even": "even odd",
        "odd": "bad even",
        "bad": "good dead",
        "good": "bad odd",
        "dead": "dead dead",
    }
    dfa = DFA(
        states=set(rows),
        input_symbols=set("01"),
        transitions={q: dict(zip("01", row.split(), strict=True)) for q, row in rows.items()},
        initial_state="even",
        final_states={"even", "odd", "good"},
    )
    return RegularLanguage("tomita3", dfa, tuple("01"))


def _tomita5() -> RegularLanguage:
    """An even number of 0s and an even number of 1s."""
    flip = {"0": 1, "1": 2}  # two bits, one parity each
    dfa = DFA(
        states=set(range(4)),
        input_symbols=set("01"),
        transitions={q: {s: q ^ bit for s, bit in flip.items()} for q in range(4)},
        initial_state=0,
        final_states={0},
    )
    return RegularLanguage("tomita5", dfa, tuple("01"))


LANGUAGES: dict[str, Callable[[], FormalLanguage]] = {
    "an": _regex("an", "aa*", "ab"),
    "anbn": lambda: CountingLanguage("anbn", "ab"),
    "anbncn": lambda: CountingLanguage("anbncn", "abc"),
    "anbncndn": lambda: CountingLanguage("anbncndn", "abcd"),
    "dieren": _dieren,
    "dieren-gaps": lambda: _dieren_gaps("dieren-gaps"),
    "dieren_muis": lambda: _dieren_gaps("dieren_muis", PlantedLanguage),
    # Training words fit two rules; test words tell which one was taken
    "first-or-majority": _ambiguous(
        *("first-or-majority", "a(a|b)*", "ab"), "begins with a", "has more a than b", more_a
    ),
    "contains-or-even": _ambiguous(
        *("contains-or-even", "(a|b|c)*ab(a|b|c)*", "abc", "contains a b"),
        *("has an even number of symbols", even_length),
    ),
    "ends-or-even": _ambiguous(
        *("ends-or-even", "a|b|c|a(a|b|c)*a|b(a|b|c)*b|c(a|b|c)*c", "abc"),
        *("ends with the symbol that it begins with", "has an even number of b", even_b),
    ),
    # The rest of the hierarchy: finite, context-free, beyond it, and what no machine decides
    "anbn5": lambda: _finite("anbn5", {"a" * n + "b" * n for n in range(1, 6)}),
    "anbm": _grammar("anbm", _fewer, "has first all a, then all b, and more a than b"),
    "wwr": _grammar("wwr", _palindromes, "says something, and then the same backwards"),
    "dyck1-unbounded": lambda: _brackets("dyck1-unbounded", 1),
    "dyck2-unbounded": lambda: _brackets("dyck2-unbounded", 2),
    "linear": _grammar("linear", phrases.linear, phrases.IN_A_ROW),
    "nested": _grammar("nested", phrases.nested, phrases.INSIDE),
    "nested-adjectives": _grammar("nested-adjectives", phrases.inflected, phrases.INFLECTED),
    "ww": lambda: CopyLanguage("ww", "ab"),
    "anbmcndm": lambda: CrossedLanguage("anbmcndm"),
    "powers": lambda: PowersLanguage("powers"),
    "halting": lambda: HaltingLanguage("halting"),
    # Pairs of a source and its target
    "copy": lambda: Reordering(
        *("copy", "abcd", same, "mildly context-sensitive", "repeats the source"),
        copying("abcd", BORDER),
    ),
    "reverse": lambda: Reordering(
        *("reverse", "abcd", backwards, "context-free", "says the source backwards"),
        mirrored("abcd"),
    ),
    "sort": lambda: Reordering(
        *("sort", "abcd", alphabetical, "mildly context-sensitive"),
        "has the letters of the source in order",
        sorting("abcd", BORDER),
    ),
    "double": lambda: SyntaxDirected(
        "double", given.doubled(), "has as many a as the source, and then as many b", each=3
    ),
    "depths": lambda: SyntaxDirected(
        "depths", given.depths(), "says how many brackets are open after each", each=2
    ),
    "postfix": lambda: SyntaxDirected(
        "postfix", given.postfix(), "has each operator of the source after both its sides"
    ),
    "parse": lambda: SyntaxDirected(
        "parse", given.parse(), "is the source with brackets around its parts"
    ),
    "parity-steps": lambda: ParitySteps("parity-steps"),
    "parity-answer": lambda: SyntaxDirected(
        *("parity-answer", given.parity_at_once(), "says whether the number of b is even or odd"),
        chomsky="regular",
        each=1,
        more=1,
    ),
    # Prompts of a rule that stands in them alone; of 120 rules so many are trained
    "in-context": lambda: InContext("in-context", "abcde", "12345", trained=96),
    "in-context-few": lambda: InContext("in-context-few", "abcde", "12345", trained=8),
    # Brackets
    "dyck1": lambda: DyckLanguage("dyck1", pairs=1, max_depth=6),
    "dyck2": lambda: DyckLanguage("dyck2", pairs=2, max_depth=4),
    "shuffle2": lambda: ShuffleLanguage("shuffle2", pairs=2),
    # Tomita (1982), over 0 and 1
    "tomita1": _regex("tomita1", "1*", "01"),
    "tomita2": _regex("tomita2", "(10)*", "01"),
    "tomita3": _tomita3,
    "tomita4": _regex("tomita4", "(1|01|001)*(0|00)?", "01"),
    "tomita5": _tomita5,
    "tomita6": lambda: _count_modulo("tomita6", "01", 3, (1, -1)),
    "tomita7": _regex("tomita7", "0*1*0*1*", "01"),
    # Li and Cotterell (2025), Table 1, from the hardest class to the easiest; their CNT is anbn. In
    # the monomials our x, y, z are their b0, b1, b2, and our b in ldp2 is their second a.
    "parity": _regex("parity", "a*(ba*ba*)*", "ab"),
    "dyck1-2": _regex("dyck1-2", "(a(ab)*b)*", "ab"),
    "dyck1-1": _regex("dyck1-1", "(ab)*", "ab"),
    "lt2": _regex("lt2", "(a|b|c)*ab(a|b|c)*", "abc"),
    "rdp1": _regex("rdp1", "(a|y)*ax*", "axy"),
    "last": _regex("last", "(a|b)*b", "ab"),
    "pt2": _regex("pt2", "(a|b|c)*a(a|b|c)*b(a|b|c)*", "abc"),
    "lt1": _regex("lt1", "(a|b)*a(a|b)*", "ab"),
    "ldp2": _regex("ldp2", "(b|y|z)*a(a|x|z)*b(a|b|x|y)*", "abxyz"),
    "ldp1": _regex("ldp1", "y*a(a|x)*", "axy"),
    "first": _regex("first", "b(a|b)*", "ab"),
}

TABLE_1 = (  # Li and Cotterell's twelve
    *("anbn", "parity", "dyck1-2", "dyck1-1", "lt2", "rdp1"),
    *("last", "pt2", "lt1", "ldp2", "ldp1", "first"),
)


@cache
def language(name: str, regex: str = "", symbols: str = "", grammar: str = "") -> FormalLanguage:
    """The registered language of this name, or one of the user's own under a new name.

    Args:
        regex: a regular expression, and its further ``symbols``; see ``expressions.of_expression``.
        grammar: the productions of a grammar; see ``grammars.notation.read``.

    Raises:
        UserError: there is no language of this name; or it is taken, or the expression or the
            grammar is no good.
    """
    if (regex or grammar) and (name in LANGUAGES or name in BOUNDED):
        raise UserError(f"{name} is a language of the lab: give yours another name")
    if regex and grammar:
        raise UserError("a regular expression and a grammar are two languages: leave one out")
    if regex:
        return of_expression(name, regex, symbols)
    if symbols:
        raise UserError(f"symbols {symbols!r} belong to a regular expression: give --regex too")
    if grammar:
        return of_grammar(name, grammar)
    if name in BOUNDED:
        return BoundedLanguage(name, BOUNDED[name])
    if name not in LANGUAGES:
        if Path(name).is_file():
            raise UserError(f"{name} is a file, not a language: give it as --corpus or --grammar")
        raise unknown("language", name, LANGUAGES)
    return LANGUAGES[name]()
