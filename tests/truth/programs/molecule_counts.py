"""Energies are averaged over the atoms of each molecule: the shape of isayevlab/aimnetcentral#109."""

import torch
from torch import nn


def atoms_per_molecule(molecule):
    return torch.bincount(molecule)  # root


class Readout(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, features, molecule, molecules):
        energies = self.energy(features).squeeze(-1)
        total = energies.new_zeros(molecules).index_add(0, molecule, energies)
        return total / atoms_per_molecule(molecule)


class Potential(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed, self.readout = nn.Embedding(10, width), Readout(width)

    def forward(self, numbers, molecule, molecules):
        return self.readout(self.embed(numbers), molecule, molecules)


def main():
    potential = Potential()
    step, found = torch.compile(potential), []
    for molecule in (torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 1, 2])):
        found.append(step(torch.randint(0, 10, (6,)), molecule, 3))
        found[-1].sum().backward()
    return [*found, potential.embed.weight.grad]


if __name__ == "__main__":
    main()
