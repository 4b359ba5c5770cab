"""Every private name of torch that this package uses, measuring included: a file for each part of torch.

Seen in torch 2.11, 2.13 and 2.15. `places` describes the functions that hooks go round, and checks each before its
hook goes in; `versions` names what differs between torches. A part that a torch does not have is not an error: the
fact that comes from it is recorded as unavailable.
"""
