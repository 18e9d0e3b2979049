"""A formula as plain text, d_k as dₖ: what is shown where no script sets it."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[{}_^&~]|\s+|.", re.S)
RAISED = dict(zip("0123456789+-=()niTNkxabdehjlmoprstuvw", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵀᴺᵏˣᵃᵇᵈᵉʰʲˡᵐᵒᵖʳˢᵗᵘᵛʷ",
                  strict=True))  # fmt: skip
LOWERED = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ",
                   strict=True))  # fmt: skip
SIGNS = {
    "cdot": "·", "times": "×", "in": "∈", "to": "→", "approx": "≈", "le": "≤", "leq": "≤",
    "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "sum": "Σ", "prod": "Π",
    "partial": "∂", "infty": "∞",
    "ldots": "…", "dots": "…", "cdots": "…", "odot": "⊙", "mid": "|", "sim": "~", "propto": "∝",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε",
    "eta": "η", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "varphi": "φ", "omega": "ω", "Delta": "Δ", "Sigma": "Σ", "pm": "±",
    "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
    "top": "ᵀ", "Rightarrow": "⇒", "rightarrow": "→", "mapsto": "↦", "ll": "≪", "gg": "≫",
    "nabla": "∇", "ast": "*", "star": "*", "oplus": "⊕", "cup": "∪", "cap": "∩", "forall": "∀",
    "ell": "ℓ", "Phi": "Φ", "notin": "∉", "leftarrow": "←", "overleftarrow": "←",
    "overrightarrow": "→", "lVert": "‖", "rVert": "‖", "Vert": "‖", "lvert": "|", "rvert": "|",
    "quad": "  ", "qquad": "   ",
    "\\": "\n", ",": " ", ";": " ", ":": " ", "!": "", " ": " ", "{": "{", "}": "}", "|": "‖",
    "%": "%", "_": "_", "&": "&", "#": "#",
}  # fmt: skip
DROPPED = {"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "limits"}
SPACE = re.compile(r"[ \t]+")


def plain(tex: str) -> str:
    """The text of a formula, on one line for each of its own."""
    tokens = TOKEN.findall(tex.strip().replace("\n", " "))
    text = sequence(tokens, None)
    return "\n".join(SPACE.sub(" ", line).strip() for line in text.split("\n")).strip()


def sequence(tokens: list[str], end: str | None) -> str:
    parts = []
    while tokens and tokens[0] != end:
        parts.append(one(tokens))
    if tokens:
        tokens.pop(0)
    return "".join(parts)


def one(tokens: list[str]) -> str:
    """The next thing as text; what it takes is taken from the list."""
    token = tokens.pop(0) if tokens else ""
    if token == "{":
        return sequence(tokens, "}")
    if token in ("_", "^"):
        return raised(one(tokens), LOWERED if token == "_" else RAISED, token)
    if token.isspace() or token in ("&", "~"):
        return " "
    if not token.startswith("\\"):
        return {"-": "−", "*": "·"}.get(token, token)
    name = token[1:].rstrip("*")
    if name in ("frac", "tfrac", "dfrac"):
        return f"{grouped(one(tokens))}/{grouped(one(tokens))}"
    if name == "sqrt":
        return f"√{grouped(one(tokens))}"
    if name in ("begin", "end"):
        one(tokens)
        return ""
    if name == "tag":
        return f"   ({one(tokens)})"
    if name in MARKS:
        while tokens and tokens[0].isspace():
            tokens.pop(0)
        return one(tokens)
    return "" if name in DROPPED else SIGNS.get(name, f"{name} ")


MARKS = {  # they change the look of what follows, which stands for itself
    "text", "mathrm", "mathbf", "mathbb", "mathcal", "operatorname", "hat", "bar", "tilde", "vec",
    "underbrace", "overbrace", "boldsymbol", "mathit", "mathsf", "textbf", "textit", "mathtt",
}  # fmt: skip


def grouped(text: str) -> str:
    return text if re.fullmatch(r".|\w[ₐ-ₜ₀-₉]*|\([^()]*\)", text) else f"({text})"


def raised(text: str, table: dict[str, str], sign: str) -> str:
    text = text.strip().replace("−", "-")
    if text and all(letter in table for letter in text):
        return "".join(table[letter] for letter in text)
    return text if text == "ᵀ" else f"{sign}{grouped(text)}"
