"""Devices that are neither a CPU nor one of torch's own, as far as that can be seen without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from compiler_lens.measure.profile.profiler import seconds_of
from compiler_lens.measure.sandbox.restoring import kept_settings


class Vendor(SimpleNamespace):
    """A vendor's module, as `torch._register_device_module` puts it into torch."""

    state = 7

    def is_available(self) -> bool:
        return True

    def get_rng_state(self) -> int:
        return self.state

    def set_rng_state(self, state: int) -> None:
        self.state = state


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Vendor:
    made = Vendor()
    name = torch.utils.backend_registration._privateuse1_backend_name
    monkeypatch.setattr(torch, name, made, raising=False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: SimpleNamespace(type=name))
    return made


def test_random_numbers_of_a_vendors_device_are_put_back(vendor: Vendor) -> None:
    with kept_settings():
        vendor.set_rng_state(8)
    assert vendor.state == 7


def test_a_device_without_random_numbers_or_events_is_none_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    bare: Any = SimpleNamespace(is_available=lambda: True, synchronize=lambda: waited.append("waited"))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: SimpleNamespace(type="bare"))
    monkeypatch.setattr(torch, "bare", bare, raising=False)
    monkeypatch.setattr(torch, "get_device_module", lambda _: bare)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16)
    monkeypatch.setattr(torch, "set_autocast_enabled", lambda *_: None)
    monkeypatch.setattr(torch, "set_autocast_dtype", lambda *_: None)
    with kept_settings():
        pass
    device: Any = SimpleNamespace(type="bare")
    assert len(seconds_of(lambda: None, 3, device)) == 3
    assert waited == ["waited"] * 3
