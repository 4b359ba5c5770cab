"""A function in parts gives what it gave, whatever it is: random ones, with loops that are left early."""

from __future__ import annotations

import random

from compiler_lens.facts.measured.parts import with_parts

NAMES = ("a", "b", "c", "d")
HEAD = """
import torch


def stay(*given):
    return sum(given) % 13


"""
FAKE = """
from types import SimpleNamespace as Has
torch = Has(mix=lambda *given: sum(given) * 7 % 31, _dynamo=Has(decorators=Has(skip=lambda function: function)))
"""


class Writer:
    """Writes statements, of which some stay Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kept: list[str] = []

    def value(self, known: list[str]) -> str:
        chosen = self.random.choices(known, k=2)
        return self.random.choice([
            f"torch.mix({chosen[0]}, torch.mix({chosen[1]}, 1) + 2)", f"torch.mix({chosen[0]} + 3, 2) * torch.mix({chosen[1]})",
            f"torch.mix(torch.mix({chosen[0]}), xs[{chosen[1]} % 4]) + 1",
        ])  # fmt: skip

    def stays(self, known: list[str]) -> str:
        line = f"z = stay(z, {self.random.choice(known)}, {len(self.kept)})"
        self.kept.append(line)
        return line

    def block(self, known: list[str], pad: str, deep: int, *, is_round: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(2, 4)):
            kind = self.random.random()
            name = self.random.choice(NAMES)
            if kind < 0.45 or deep == 0:
                lines.append(f"{pad}{name} = {self.value(known)}")
                known = [*dict.fromkeys((*known, name))]
            elif kind < 0.6:
                lines.append(pad + self.stays(known))
            elif kind < 0.75:
                test = self.random.choice(known)
                lines.append(f"{pad}if {test} % 3 == 0:")
                lines += self.block(known, pad + "    ", deep - 1, is_round=is_round)
                if self.random.random() < 0.5:
                    lines.append(f"{pad}else:")
                    lines += self.block(known, pad + "    ", deep - 1, is_round=is_round)
            elif kind < 0.9:
                number = f"t{deep}"
                lines.append(f"{pad}for {number} in range(z % 4):")
                lines += self.block([*known, number], pad + "    ", deep - 1, is_round=True)
                lines.append(f"{pad}    {self.random.choice(NAMES)} = torch.mix(xs[{number}], torch.mix(z) + 1)")
                if self.random.random() < 0.4:
                    lines.append(f"{pad}    out.append({self.value(known)})")
                if self.random.random() < 0.3:
                    lines.append(f"{pad}else:")
                    lines.append(f"{pad}    {self.random.choice(NAMES)} = {self.value(known)}")
            elif is_round:
                lines.append(f"{pad}if {self.random.choice(known)} % 5 == 0:")
                lines.append(f"{pad}    {self.random.choice(('break', 'continue'))}")
            else:
                lines.append(f"{pad}xs[{self.random.choice(known)} % 4] = {self.value(known)}")
        return lines

    def text(self) -> str:
        begin = ["def f(a, b, xs):", "    z, out = a, []", "    c = torch.mix(a, torch.mix(b))", "    d = torch.mix(b)"]
        body = self.block(["a", "b", "c", "d", "z"], "    ", 3, is_round=False)
        body.insert(self.random.randint(0, 1), "    " + self.stays(["a", "b"]))
        return HEAD + "\n".join([*begin, *body, "    return a, b, c, d, z, out, xs\n"])


def run(text: str, given: tuple[int, int]) -> object:
    module: dict[str, object] = {"__name__": "law"}
    exec(compile(text.replace("import torch\n", FAKE), "law", "exec"), module)
    made = module["f"]
    assert callable(made)
    return made(*given, [3, 1, 4, 1])


def test_a_function_in_parts_gives_what_it_gave() -> None:
    parts = 0
    for seed in range(100):
        writer = Writer(seed)
        text = writer.text()
        new = with_parts(text, "f", writer.kept)
        if new is not None:
            parts += new.count("def f_computed")
            for given in ((1, 2), (3, 5), (9, 4), (12, 30)):
                assert run(new, given) == run(text, given), seed
    assert parts > 200
