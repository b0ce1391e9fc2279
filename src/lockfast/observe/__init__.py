"""Observing leases from the outside: metrics, traces, advice.

    locks = lockfast.Locks(url, on_event=lockfast.observe.prometheus())

`prometheus()` and `opentelemetry()` return hooks, and an `Advisor` is itself a hook. A hook may
serve several clients, and `on_event` also accepts a list of hooks. Each hook is imported on first
use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lockfast.errors import ConfigurationError, pip_install

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from lockfast.observe.advice import Advice
    from lockfast.observe.advisor import Advisor
    from lockfast.observe.opentelemetry_hook import OpenTelemetryHook
    from lockfast.observe.prometheus_metrics import PrometheusMetrics

__all__ = ["Advice", "Advisor", "alert_rules", "dashboard", "opentelemetry", "prometheus"]

_LATE = {"Advice": "lockfast.observe.advice", "Advisor": "lockfast.observe.advisor"}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'lockfast.observe' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LATE[name]), name)
    return found


def prometheus(
    *, registry: CollectorRegistry | None = None, raw_names: bool = False
) -> PrometheusMetrics:
    """Return the hook whose figures Prometheus can scrape; each registry has only one.

    - `registry`: a prometheus_client registry; None means the default registry.
    - `raw_names`: label by full names instead of their patterns (`order:*`). Use this only if
      there are few names, because every name is kept for the life of the process.
    """
    try:
        from lockfast.observe.prometheus_metrics import in_registry  # noqa: PLC0415
    except ImportError as error:
        raise _missing("prometheus", error) from error
    return in_registry(registry, raw_names=raw_names)


def opentelemetry(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    raw_names: bool = False,
) -> OpenTelemetryHook:
    """Return a hook that creates spans for waits and holds, and records metrics.

    - `tracer_provider`, `meter_provider`: None means the global providers.
    - `raw_names`: as in `prometheus()`.
    """
    try:
        from lockfast.observe.opentelemetry_hook import OpenTelemetryHook  # noqa: PLC0415
    except ImportError as error:
        raise _missing("otel", error) from error
    return OpenTelemetryHook(
        tracer_provider=tracer_provider, meter_provider=meter_provider, raw_names=raw_names
    )


def alert_rules() -> str:
    """Return Prometheus alert rules for these metrics, as YAML."""
    return _shipped("alert_rules.yml")


def dashboard() -> str:
    """Return a Grafana dashboard for these metrics, as JSON to import."""
    return _shipped("dashboard.json")


def _shipped(name: str) -> str:
    # Do not import these earlier. `import lockfast` imports this package, and would take 6 ms
    # longer.
    from importlib import resources  # noqa: PLC0415

    return resources.files("lockfast.observe").joinpath("shipped", name).read_text("utf-8")


def _missing(extra: str, error: ImportError) -> ConfigurationError:
    return ConfigurationError(
        f"this hook needs a package that is not installed ({error.name}): {pip_install(extra)}"
    )
