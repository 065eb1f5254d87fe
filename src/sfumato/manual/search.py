"""Search in the documentation: whole words and their beginnings, titles before headings before text.

``build_index`` computes every weight. A lookup only adds integers; ``docs/theme/search.js`` does so on the site, and a
test compares the two. A page is found by its best section. The score of a section is the sum, over the words asked
for, of weight × rarity, times the sum of the rarities of the words that it has: a section that has all of them comes
before those that have one of them often.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from sfumato.caching import cached_property
from sfumato.manual.markdown_pages import FRONT_PAGE, Page, Section, groups_by_page
from sfumato.quick_dataclass import dataclass

TITLE, TITLE_OF_PAGE, HEADING, TEXT = 60, 10, 20, 4
"""Weights of a word in the title (for the page's first section, and for its others), in a heading, and in the text."""
MAX_COUNT = 3
"""A word that stands more often than this in the text of a section weighs no more."""
EXACT = 2
"""The factor of a word that is matched whole, or with a plural's s, beside one that only begins as asked."""
SHORTEST_PREFIX, SHORTEST_STEM, MAX_ENDING = 2, 4, 3
"""Letters that find longer words; letters kept, and letters dropped, where no word begins as asked (percentiles)."""
_COMMON = (
    "a about all also an and any are as at be been but by can could did do does each else every for from had has have "
    "here how i if in into is it its just let may me might more most must my no none nor not of on one only or other "
    "others our s same shall she should so some such than that the their them then there these they this those though "
    "to too two under up upon us very was we were what whatever when where whether which while who whoever whom whose "
    "why will with within without would yes yet you your"
)
COMMON_WORDS = frozenset(_COMMON.split())
"""Words that are neither indexed nor searched for."""
MISTAKES = "reference/mistakes.md"
_RULE = re.compile(r"^(\S.*?)(?: \[[a-z-]+\])?\n  place: ", re.M)
_USAGE_ERROR = re.compile(r"^Error: (.+)$", re.M)
_FENCED = re.compile(r"^ *```([\w-]*)\n(.*?)^ *```", re.M | re.S)
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]+\b")
_TARGET = re.compile(r"\]\([^)]*\)")
_WORD = re.compile(r"[^\W_]+")
MAX_LETTERS = 24
"""Longer words are hashes and the like."""
_SYNONYMS = Path(__file__).parent / "synonyms.toml"


@dataclass(frozen=True)
class Synonym:
    """A phrase that readers type, and where it leads."""

    words: tuple[str, ...] = ()
    """Words to search for as well."""
    pages: tuple[str, ...] = ()
    """Pages that come first, each as ``path`` or ``path#anchor``."""


@dataclass(frozen=True)
class Hit:
    """A page that was found, at its best section."""

    page: Page
    section: Section
    group: str
    score: int


@dataclass(frozen=True)
class Index:
    """The weight of every word in every section."""

    pages: tuple[Page, ...]
    group_by_page: Mapping[str, str]
    section_weights: Mapping[str, Mapping[int, int]]
    """By word: by section, counted over all pages, the weight of the word there."""
    synonyms: Mapping[str, Synonym]
    """By phrase, the longest first."""

    @cached_property
    def words(self) -> list[str]:
        return sorted(self.section_weights)

    @cached_property
    def sections(self) -> list[tuple[Page, Section]]:
        """Every section with its page, in the order in which ``weights`` count them."""
        return [(page, section) for page in self.pages for section in page.sections]

    @cached_property
    def section_numbers(self) -> dict[str, int]:
        """The number of the section that ``path#anchor`` names, and of the first one of ``path``."""
        numbers: dict[str, int] = {}
        for number, (page, section) in enumerate(self.sections):
            numbers |= {page.path: numbers.get(page.path, number), f"{page.path}#{section.anchor}": number}
        return numbers

    def search(self, query: str) -> list[Hit]:
        """Return the pages found, each at its best section, the best page first."""
        scores = self._scores(tokenize(query))
        hits: dict[str, Hit] = {}
        for number in sorted(scores, key=lambda number: (-scores[number], number)):
            page, section = self.sections[number]
            hits.setdefault(page.path, Hit(page, section, self.group_by_page.get(page.path, ""), scores[number]))
        return list(hits.values())

    def _scores(self, query: list[str]) -> dict[int, int]:
        synonyms = self._synonyms_in(query)
        totals: Counter[int] = Counter()
        covered: Counter[int] = Counter()
        for word in dict.fromkeys([*query, *(word for synonym in synonyms for word in synonym.words)]):
            matches = self._matching_weights(word)
            rarity = (len(self.sections) // max(1, len(matches))).bit_length()
            for section, weight in matches.items():
                totals[section] += weight * rarity
                covered[section] += rarity
        scores = {section: total * covered[section] for section, total in totals.items()}
        pages = dict.fromkeys(page for synonym in synonyms for page in synonym.pages)
        first = [self.section_numbers[page] for page in pages if page in self.section_numbers]
        top = max(scores.values(), default=0)
        return scores | {section: 2 * top + len(first) - rank for rank, section in enumerate(first)}

    def _synonyms_in(self, query: list[str]) -> list[Synonym]:
        """Return the synonyms whose phrase the query has, or will have once its last word is finished."""
        text, last = " ".join(query), query[-1] if query else ""
        has = f" {text} "
        return [
            synonym
            for phrase, synonym in self.synonyms.items()
            if f" {phrase} " in has
            or f" {phrase}s " in has
            or (len(last) >= SHORTEST_STEM and phrase.startswith(text) and " " not in phrase[len(text) :])
        ]

    def _matching_weights(self, word: str) -> dict[int, int]:
        """Return the weight of a word in each section that has it, whole or as the beginning of another."""
        stem = self._indexed_prefix(word)
        matches: defaultdict[int, int] = defaultdict(int)
        for indexed_word in self._words_with_prefix(stem):
            factor = EXACT if indexed_word in (word, f"{word}s") else 1
            for section, weight in self.section_weights[indexed_word].items():
                matches[section] = max(matches[section], factor * weight)
        return matches

    def _indexed_prefix(self, word: str) -> str:
        """Return the word, or without its ending if no word begins with it."""
        shortest = max(SHORTEST_STEM, len(word) - MAX_ENDING)
        stems = (word[:length] for length in range(len(word) - 1, shortest - 1, -1))
        return next((stem for stem in (word, *stems) if any(self._words_with_prefix(stem))), word)

    def _words_with_prefix(self, prefix: str) -> Iterator[str]:
        if len(prefix) < SHORTEST_PREFIX:
            yield from [prefix] if prefix in self.section_weights else []
            return
        for position in range(bisect_left(self.words, prefix), len(self.words)):
            if not self.words[position].startswith(prefix):
                return
            yield self.words[position]


def tokenize(text: str) -> list[str]:
    """Split a text into words as they are indexed: lower case, without accents, numbers and common words.

    >>> tokenize("How do I use APPROX_TOP_K(café, 10)?")
    ['use', 'approx', 'top', 'k', 'cafe']
    """
    bare = unicodedata.normalize("NFD", text.lower())
    words = _WORD.findall("".join(letter for letter in bare if not unicodedata.combining(letter)))
    return [word for word in words if not word.isnumeric() and word not in COMMON_WORDS and len(word) <= MAX_LETTERS]


def build_index(pages: tuple[Page, ...], synonyms: Mapping[str, Synonym] | None = None) -> Index:
    """Weigh every word of every section of the pages; a message of the page on mistakes leads to its section."""
    weights: defaultdict[str, dict[int, int]] = defaultdict(dict)
    section_weights = (_section_weights(page, section) for page in pages for section in page.sections)
    for number, words in enumerate(section_weights):
        for word, weight in words.items():
            weights[word][number] = weight
    phrases = _message_synonyms(pages) | (read_synonyms() if synonyms is None else dict(synonyms))
    longest_first = dict(sorted(phrases.items(), key=lambda item: -len(item[0])))
    front_page = next((page.markdown for page in pages if page.path == FRONT_PAGE), "")
    return Index(pages, groups_by_page(front_page), dict(weights), longest_first)


def _message_synonyms(pages: tuple[Page, ...]) -> dict[str, Synonym]:
    """Return a synonym for each message shown on the page on mistakes; the first section that shows it has it."""
    synonyms: dict[str, Synonym] = {}
    for page in pages:
        for section in page.sections if page.path == MISTAKES else ():
            for message in refusal_rules(section):
                synonyms.setdefault(_tokenized_phrase(message), Synonym(pages=(f"{page.path}#{section.anchor}",)))
    return synonyms


def refusal_rules(section: Section) -> list[str]:
    """Return the first lines of the refusals in a section's blocks of text: what the reader sees above ``place:``."""
    return [*_RULE.findall(section.text), *_USAGE_ERROR.findall(section.text)]


def _section_weights(page: Page, section: Section) -> Counter[str]:
    is_first = section is page.sections[0]
    if page.path == FRONT_PAGE and not is_first:
        return Counter()  # a list of titles would be found for every one of them
    counts = Counter(tokenize(_indexed_text(section.text)))
    weights = Counter({word: TEXT * min(count, MAX_COUNT) for word, count in counts.items()})
    weights.update(dict.fromkeys(tokenize(page.title), TITLE if is_first else TITLE_OF_PAGE))
    weights.update({} if is_first else dict.fromkeys(tokenize(section.heading), HEADING))
    return weights


def _indexed_text(markdown: str) -> str:
    """Return the words of prose and of printed text; of code, the words of SQL, which are written in capitals."""
    prose = _FENCED.sub(
        lambda block: block[2] if block[1] == "text" else " ".join(_CAPITALS.findall(block[2])), markdown
    )
    return _TARGET.sub("]", prose)


def read_synonyms(path: Path = _SYNONYMS) -> dict[str, Synonym]:
    """Read the file of synonyms; phrases are kept as ``tokenize`` splits them."""
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    words = {_tokenized_phrase(typed): tuple(tokenize(words)) for typed, words in written["words"].items()}
    pages = {_tokenized_phrase(typed): tuple(pages) for typed, pages in written["pages"].items()}
    return {phrase: Synonym(words.get(phrase, ()), pages.get(phrase, ())) for phrase in {**words, **pages}}


def _tokenized_phrase(typed: str) -> str:
    return " ".join(tokenize(typed))
