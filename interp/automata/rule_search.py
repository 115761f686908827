"""The rule behind an automaton, or behind verdicts on words.

A rule counts as the rule of an automaton only if their automata are equivalent; it is not enough
that they are similar. Symbols that an automaton never tells apart are treated as one letter, so
that rules are made of the few symbols that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.extraction import over, symbol_classes, toggled
from interp.automata.read_off import lists, shapes, shortest_word
from interp.automata.rules import ONE_OF, Families, Rule

SOME = 4  # the most symbols that a rule names as "one of a, b, c, d"
PROBES = 1500  # words on which candidates are compared before their automata are compared
MOST_TOLD = 12  # the most symbols that rules name; if there are more, rules name none
MOST_COUNT = 8  # the largest count in "at least", "at most" and "exactly"
MOST_ENDS = 20  # the most symbols for "same ends", whose automaton has their square as states
MOST_PAIRS = 50  # so many pairs of rules that fit are kept, the smallest ones


def rule_of(dfa: DFA, symbols: Sequence[str], empty: bool = True) -> Rule | None:
    """The rule that has this automaton, in the fewest words; None if no rule of the families has.

    Args:
        dfa: a complete automaton over the symbols.
        symbols: the alphabet, in the order in which rules name it.
        empty: whether rule and automaton must also agree on the empty word. Lines are never empty.
    """
    dfa = dfa.minify()
    classes = symbol_classes(dfa, symbols)
    letters = [group[0] for group in classes]
    families = Families(letters, {group[0]: _one_of(group) for group in classes})
    small = over(dfa, letters)
    terms = [group[0] for group in classes if len(group) <= SOME]
    if len(terms) > MOST_TOLD:
        terms = []
    rules = [
        rule
        for goal in ([small] if empty else [small, toggled(small)])
        for rule in _equivalent(goal, families, terms)
    ]
    if not rules:
        return None
    best = min(rules, key=lambda rule: (len(rule.text.split()), rule.size))
    return replace(best, dfa=_widened(best.dfa, classes))


def rules_near(
    words: Sequence[Sequence[str]],
    verdicts: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
    told: Sequence[str],
    most_wrong: int,
) -> list[tuple[Rule, int]]:
    """The rules that differ from the verdicts on few words, each with the number of these words.

    Of each size there is one rule, the one that differs on the fewest. This is for a network that
    is sure only of words of some lengths: it has no automaton for all words.

    Args:
        words: at least one.
        verdicts: verdicts on the words.
        symbols: the alphabet.
        told: the symbols that a rule may name; without any there is no rule.
        most_wrong: the most words on which a rule may differ.
    """
    families = Families(symbols)
    padded = _padded(words, symbols)
    if not told:
        return []
    candidates = [families.same_ends()] if len(symbols) <= MOST_ENDS else []
    rules = [*candidates, *_candidates(families, told, states=5, patterns=())]
    seen = _with_denials(rules, symbols, padded)
    best: dict[int, tuple[Rule, int]] = {}
    for wrong, make in _near(seen, verdicts, rules, most_wrong):
        rule = make()
        if rule.size not in best or wrong < best[rule.size][1]:
            best[rule.size] = rule, wrong
    return [best[size] for size in sorted(best)]


def same(one: DFA, other: DFA) -> bool:
    """Do two automata accept the same words? The empty word does not count."""
    return one == other or toggled(one) == other


def _equivalent(goal: DFA, families: Families, terms: Sequence[str]) -> list[Rule]:
    """The rules that are equivalent to a minimal automaton: of one part, if there are any, or of
    one shape, or of two parts, or lists, or on a tier."""
    rules = _rules(goal, families, terms)
    probes = _probes(len(families.symbols))
    wanted = _verdicts(goal, families.symbols, probes)
    seen = _with_denials(rules, families.symbols, probes)
    alone = (_form(rules, int(i)) for i in np.flatnonzero((seen == wanted).all(axis=1)))
    ways: list[Iterable[Rule]] = [
        (rule for rule in alone if rule.dfa == goal),
        shapes(goal, families, terms),
        (rule for _, make in _near(seen, wanted, rules, 0) if (rule := make()).dfa == goal),
        lists(goal, families, terms),
        _on_tier(goal, families, terms),
    ]
    return next((exact for way in ways if (exact := list(way))), [])


def _rules(goal: DFA, families: Families, terms: Sequence[str]) -> list[Rule]:
    """The rules of one part that are compared, as are their denials, with a goal."""
    rules = _constants(families)
    names = families.names or {}
    # Equal letters are equal symbols only if each letter stands for a single one.
    if len(names) <= MOST_ENDS and all(names.get(s, s) == s for s in families.symbols):
        rules.append(families.same_ends())
    patterns = [shortest_word(dfa, families.symbols) for dfa in (goal, goal.complement())]
    return [*rules, *_candidates(families, terms, len(goal.states), patterns)]


def _on_tier(goal: DFA, families: Families, terms: Sequence[str]) -> Iterator[Rule]:
    """The rules of what is left without the symbols that do nothing in any state."""
    rows = goal.transitions
    tier = [s for s in families.symbols if any(row[s] != q for q, row in rows.items())]
    if 0 < len(tier) < len(families.symbols) and set(tier) <= set(terms):
        for rule in _equivalent(over(goal, tier), Families(tier, families.names), tier):
            yield families.on_tier(rule, tier)


def _near(
    seen: Bool[np.ndarray, "forms words"],
    wanted: Bool[np.ndarray, " words"],
    rules: Sequence[Rule],
    most_wrong: int,
) -> Iterator[tuple[int, Callable[[], Rule]]]:
    """Candidates, their denials, and pairs of these joined by and, or, xor, that differ on few
    words.

    Each comes as the number of words on which it differs, and a function that makes the rule. How
    many words two rules both accept, and how many of these are wanted, says this of all pairs at
    once.
    """
    counts = seen.astype(np.float32)
    goal = wanted.astype(np.float32)
    both, both_wanted = counts @ counts.T, (counts * goal) @ counts.T
    one, one_wanted, total = counts.sum(axis=1), counts @ goal, goal.sum()
    sizes = np.array([rule.size + denied for rule in rules for denied in (0, 1)])

    for index in np.flatnonzero(one + total - 2 * one_wanted <= most_wrong):
        wrong = int(one[index] + total - 2 * one_wanted[index])
        yield wrong, partial(_form, rules, int(index))
    sums, sums_wanted = one[:, None] + one, one_wanted[:, None] + one_wanted
    shares = {
        Rule.__and__: (both, both_wanted),
        Rule.__or__: (sums - both, sums_wanted - both_wanted),
        Rule.__xor__: (sums - 2 * both, sums_wanted - 2 * both_wanted),
    }
    once = np.triu(np.ones(both.shape, dtype=bool), 1)
    for combine, (size, shared) in shares.items():
        differ = size + total - 2 * shared
        rows, columns = np.nonzero((differ <= most_wrong) & once)
        smallest = np.lexsort((differ[rows, columns], sizes[rows] + sizes[columns]))[:MOST_PAIRS]
        for i, j in zip(rows[smallest].tolist(), columns[smallest].tolist(), strict=True):
            yield int(differ[i, j]), partial(_joined, combine, rules, i, j)


def _with_denials(
    rules: Sequence[Rule], letters: Sequence[str], words: np.ndarray
) -> Bool[np.ndarray, "forms words"]:
    """The verdicts of every rule on padded words, and after each those of its denial.

    The denials themselves are made only where they fit: their automata take most of the time.
    """
    seen = np.array([_verdicts(rule.dfa, letters, words) for rule in rules])
    return np.stack([seen, ~seen], axis=1).reshape(2 * len(rules), len(words))


def _form(rules: Sequence[Rule], index: int) -> Rule:
    """A rule or its denial, by its row among the verdicts."""
    rule = rules[index // 2]
    return ~rule if index % 2 else rule


def _joined(combine: Callable[[Rule, Rule], Rule], rules: Sequence[Rule], i: int, j: int) -> Rule:
    return combine(_form(rules, i), _form(rules, j))


def _constants(families: Families) -> list[Rule]:
    every = DFA.universal_language(set(families.symbols))
    return [Rule("all", "is any word", "is no word", 0, every)]


def _candidates(
    families: Families, terms: Sequence[str], states: int, patterns: Iterable[Sequence[str]]
) -> Iterator[Rule]:
    """The rules that name these symbols, with counts that fit an automaton of so many states.

    Args:
        told: the symbols that a rule may name.
        patterns: longer patterns to try too.
    """
    longest = 3 if len(terms) <= 5 else 2 if len(terms) <= 9 else 1
    tried = [p for length in range(1, longest + 1) for p in product(terms, repeat=length)]
    for pattern in [*tried, *(p for p in patterns if len(p) > longest and set(p) <= set(terms))]:
        yield families.starts(*pattern)
        yield families.ends(*pattern)
        if len(pattern) == 1 or len(set(pattern)) > 1:  # x ... x is "at least 2 x"
            yield families.contains(*pattern)
        if len(pattern) > 1:
            yield families.side_by_side(*pattern)
    for symbol in terms:
        yield families.even(symbol)
        yield families.only(symbol)
        for count in range(1, min(states, MOST_COUNT + 1)):
            yield families.at_most(count, symbol)
            yield families.exactly(count, symbol)
            if count > 1:
                yield families.at_least(count, symbol)
    for early, late in permutations(terms, 2):
        yield families.before(early, late)
        yield families.all_before(early, late)


def _one_of(group: Sequence[str]) -> str:
    return group[0] if len(group) == 1 else f"{ONE_OF}{', '.join(group)}"


def _widened(dfa: DFA, classes: Sequence[Sequence[str]]) -> DFA:
    """The automaton over all symbols; each symbol does what the first of its class does."""
    return DFA(
        states=set(dfa.states),
        input_symbols={symbol for group in classes for symbol in group},
        transitions={
            q: {symbol: row[group[0]] for group in classes for symbol in group}
            for q, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states),
    )


def _probes(letters: int) -> np.ndarray:
    """Random words of up to 12 letters, padded with -1, [words, 12]; always the same."""
    rng = np.random.default_rng(0)
    words = rng.integers(letters, size=(PROBES, 12))
    words[np.arange(12) >= rng.integers(1, 13, size=PROBES)[:, None]] = -1
    return words


def _padded(words: Sequence[Sequence[str]], symbols: Sequence[str]) -> np.ndarray:
    """Words as numbers of their symbols, padded with -1, [words, longest]."""
    number = {symbol: index for index, symbol in enumerate(symbols)}
    padded = np.full((len(words), max(map(len, words))), -1)
    for row, word in zip(padded, words, strict=True):
        row[: len(word)] = [number[symbol] for symbol in word]
    return padded


def _verdicts(dfa: DFA, letters: Sequence[str], words: np.ndarray) -> np.ndarray:
    """The automaton's verdicts on padded words, [words]."""
    width = len(letters) + 1
    start = {state: width * index for index, state in enumerate(dfa.states)}  # of a state's row
    # The first column is the padding, which moves nothing.
    delta = np.array(
        [[start[q], *(start[dfa.transitions[q][s]] for s in letters)] for q in dfa.states]
    ).ravel()
    final = np.array([q in dfa.final_states for q in dfa.states])
    state = np.full(len(words), start[dfa.initial_state])
    for column in np.ascontiguousarray(words.T) + 1:
        state = delta[state + column]
    return final[state // width]
