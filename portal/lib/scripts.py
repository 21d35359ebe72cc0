"""Which words mix scripts as no honest word does: UTS #39, section 5.2, restriction levels.

A word passes when all its characters can belong to one script, or are Latin beside Chinese, Japanese or Korean
(*Highly Restrictive*). Everything below that may be a word that looks like another one. The scripts of a character are
its script extensions, of the Unicode version that the library ``regex`` carries.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

import regex

# ISO 15924 codes. A script that is missing here counts as a script of its own, shared with no other.
_CODES = """
    Adlm Aghb Ahom Arab Armi Armn Avst Bali Bamu Bass Batk Beng Berf Bhks Bopo Brah Brai Bugi Buhd Cakm
    Cans Cari Cham Cher Chrs Copt Cpmn Cprt Cyrl Deva Diak Dogr Dsrt Dupl Egyp Elba Elym Ethi Gara Geor
    Glag Gong Gonm Goth Gran Grek Gujr Gukh Guru Hang Hani Hano Hatr Hebr Hira Hluw Hmng Hmnp Hung Ital
    Java Kali Kana Kawi Khar Khmr Khoj Kits Knda Krai Kthi Lana Laoo Latn Lepc Limb Lina Linb Lisu Lyci
    Lydi Mahj Maka Mand Mani Marc Medf Mend Merc Mero Mlym Modi Mong Mroo Mtei Mult Mymr Nagm Nand Narb
    Nbat Newa Nkoo Nshu Ogam Olck Onao Orkh Orya Osge Osma Ougr Palm Pauc Perm Phag Phli Phlp Phnx Plrd
    Prti Rjng Rohg Runr Samr Sarb Saur Sgnw Shaw Shrd Sidd Sidt Sind Sinh Sogd Sogo Sora Soyo Sund Sunu
    Sylo Syrc Tagb Takr Tale Talu Taml Tang Tavt Telu Tfng Tglg Thaa Thai Tibt Tirh Tnsa Todr Tols Toto
    Tutg Ugar Vaii Vith Wara Wcho Xpeo Xsux Yezi Yiii Zanb
"""


def _known(codes: Iterable[str]) -> list[str]:
    """Those of ``codes`` that the library has heard of."""
    found = []
    for code in codes:
        try:
            regex.compile(rf"\p{{scx={code}}}")
        except regex.error:
            continue
        found.append(code)
    return found


_SCRIPTS = _known(_CODES.split())
_BITS = {code: 1 << place for place, code in enumerate(_SCRIPTS)}
_HELD_BY = [(_BITS[code], regex.compile(rf"\p{{scx={code}}}+")) for code in _SCRIPTS]
_ANY = regex.compile(r"[\p{scx=Zyyy}\p{scx=Zinh}]")
_DIGIT = regex.compile(r"\p{Nd}")
_JPAN, _HANB, _KORE = (1 << len(_SCRIPTS) + place for place in range(3))
_UNLISTED = 1 << len(_SCRIPTS) + 3
_EVERY = (_UNLISTED << 1) - 1
_LATIN = _BITS["Latn"]
# Writing systems of several scripts: what a character of each script can be part of as well (UTS #39, table 1a).
_AUGMENTED = {
    "Hani": _JPAN | _HANB | _KORE,
    "Hira": _JPAN,
    "Kana": _JPAN,
    "Bopo": _HANB,
    "Hang": _KORE,
}
# Letters and digits in a dress (mathematical bold, double-struck, monospace) that pass for plain ones; units are
# written with the micro sign.
_DRESSED = regex.compile(r"(?=[\p{scx=Zyyy}&&\p{NFKC_QC=N}])[\p{L}\p{Nd}--\u00b5]", regex.V1)


def is_mixed(word: str) -> bool:
    """Whether ``word`` (letters, marks, digits, connectors) is below *Highly Restrictive*, or counts with the digits
    of two scripts (section 5.3)."""
    if word.isascii():
        return False
    resolved, beside_latin, zeros = _EVERY, _JPAN | _HANB | _KORE, set()
    for character in set(word):
        scripts, zero = _facts(character)
        if not scripts:
            return True
        resolved &= scripts
        if not scripts & _LATIN:
            beside_latin &= scripts
        if zero is not None:
            zeros.add(zero)
    return len(zeros) > 1 or not (resolved or beside_latin)


def _facts(character: str) -> tuple[int, int | None]:
    """The scripts that ``character`` can belong to, as bits (none: it only looks like another), and for a digit which
    set of ten it is of."""
    code = ord(character)
    return _page(code >> 8)[code & 0xFF]


@cache  # a page is 256 code points, and there are 4,352
def _page(number: int) -> list[tuple[int, int | None]]:
    """The facts of one page. The library tells a script only by matching: a page at once, not each character."""
    characters = "".join(chr(code) for code in range(number << 8, (number + 1) << 8))
    bits = [0] * len(characters)
    for bit, held in _HELD_BY:
        for found in held.finditer(characters):
            for place in range(*found.span()):
                bits[place] |= bit
    return [(_of(character, bits[place]), _zero(character)) for place, character in enumerate(characters)]


def _of(character: str, bits: int) -> int:
    if _DRESSED.match(character):
        return 0
    if _ANY.match(character):
        return _EVERY
    for code, more in _AUGMENTED.items():
        if bits & _BITS[code]:
            bits |= more
    return bits or _UNLISTED


def _zero(character: str) -> int | None:
    if not _DIGIT.match(character):
        return None
    value = unicodedata.decimal(character, None)
    # Digits younger than Python's own tables: whoever shares sixteen code points is taken for one set.
    return ord(character) - value if value is not None else -(ord(character) >> 4)
