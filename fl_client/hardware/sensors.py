"""How this board's hardware is: temperature, throttling, memory, load, disk, power.

Everything is read from Linux's own files; what a machine does not have is simply absent. The
root folder is an argument, so that the layouts of real boards can be tested anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from common.wire.messages import Telemetry

FIRMWARE_SECONDS = 2.0  # how long the Raspberry Pi's firmware may take to answer
# Where the CPU's temperature is, best first; others (PMIC, Wi-Fi, battery) are not the CPU's.
_ZONES = ("cpu-thermal", "cpu_thermal", "x86_pkg_temp", "cpu", "soc", "acpitz")
# Bits of `vcgencmd get_throttled` about the present; 16 and above are about the past.
_THROTTLED = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "too hot"}
# Rails of a Jetson that carry everything else; without one of them the rails are added up.
_TOTAL_RAILS = ("VDD_IN", "POM_5V_IN", "VIN_SYS_5V0", "SYS5V_IN")
Ask = Callable[[str], str]


class Sensors:
    """Reads a board's sensors; may take a moment where firmware is asked."""

    def __init__(self, disk: Path, root: Path = Path("/"), ask: Ask | None = None) -> None:
        self._disk = disk
        self._root = root
        self._ask = ask if ask is not None else _vcgencmd()
        self._rails = tuple(_rails(root))

    def watts(self) -> float | None:
        """The power of the whole board at this moment."""
        known = {name: _milliwatts(rail) for name, rail in self._rails}
        total = next((known[name] for name in _TOTAL_RAILS if known.get(name)), None)
        if total is None:
            measured = [value for value in known.values() if value is not None]
            total = sum(measured) if measured else None
        return None if total is None else round(total / 1000, 3)

    def read(self) -> Telemetry:
        """Everything, as it is now."""
        total, used = _memory(self._root)
        throttled, why = self._throttled()
        found: dict[str, object] = {
            "celsius": self._celsius(),
            "throttled": throttled,
            "why": why,
            "memory_used": used,
            "memory_total": total,
            "load": _load(self._root),
            "cpus": os.cpu_count(),
            "disk_free": _disk_free(self._disk),
            "watts": self.watts(),
        }
        return _valid(found)

    def _celsius(self) -> float | None:
        zones = {_text(zone / "type"): zone for zone in _zones(self._root)}
        for wanted in _ZONES:
            for kind, zone in zones.items():
                if kind.lower().startswith(wanted):
                    value = _integer(zone / "temp")
                    if value is not None:
                        return round(value / 1000, 1)
        found = re.search(r"temp=([\d.]+)", self._answer("measure_temp"))
        return float(found[1]) if found else None

    def _throttled(self) -> tuple[bool | None, str]:
        found = re.search(r"throttled=0x([0-9a-fA-F]+)", self._answer("get_throttled"))
        if found:
            bits = int(found[1], 16)
            why = [text for bit, text in _THROTTLED.items() if bits >> bit & 1]
            return bool(why), ", ".join(why)
        return _cooling(self._root)

    def _answer(self, question: str) -> str:
        return self._ask(question) if self._ask is not None else ""


def _valid(found: dict[str, object]) -> Telemetry:
    """The values as a message; one that no sensor can mean is left out."""
    try:
        return msgspec.convert(found, Telemetry)
    except msgspec.ValidationError:
        return Telemetry(
            **{key: value for key, value in found.items() if _fits(key, value)},  # type: ignore[arg-type]
        )


def _fits(key: str, value: object) -> bool:
    try:
        msgspec.convert({key: value}, Telemetry)
    except msgspec.ValidationError:
        return False
    return True


def _vcgencmd() -> Ask | None:
    """The Raspberry Pi's firmware, where there is one."""
    program = shutil.which("vcgencmd")
    if program is None:
        return None

    def ask(question: str) -> str:
        try:
            done = subprocess.run(
                [program, question],
                capture_output=True,
                text=True,
                timeout=FIRMWARE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout

    return ask


def _zones(root: Path) -> list[Path]:
    return sorted((root / "sys/class/thermal").glob("thermal_zone*"))


def _cooling(root: Path) -> tuple[bool | None, str]:
    """Whether Linux slows the CPU down to cool it."""
    states = [
        _integer(device / "cur_state")
        for device in (root / "sys/class/thermal").glob("cooling_device*")
        if re.search("cpufreq|cpu-", _text(device / "type").lower())
    ]
    known = [state for state in states if state is not None]
    if not known:
        return None, ""
    hot = any(state > 0 for state in known)
    return hot, "slowed down to cool" if hot else ""


def _memory(root: Path) -> tuple[int | None, int | None]:
    kilobytes = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(root / "proc/meminfo"), re.M))
    if not {"MemTotal", "MemAvailable"} <= kilobytes.keys():
        return None, None
    total, free = int(kilobytes["MemTotal"]), int(kilobytes["MemAvailable"])
    return total * 1024, max(0, total - free) * 1024


def _load(root: Path) -> float | None:
    found = re.match(r"[\d.]+", _text(root / "proc/loadavg"))
    return float(found[0]) if found else None


def _disk_free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _rails(root: Path) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """The channels of all INA3221 chips: their name, and the files that make the power.

    Newer kernels have hwmon files (mA and mV; the older Jetson ones rail_name_* and power in
    milliwatts).
    """
    chips = sorted((root / "sys/bus/i2c/drivers").glob("ina3221*/*-*"))
    for chip in chips:
        for label in sorted(chip.glob("hwmon/hwmon*/in[1-3]_label")):
            channel = label.name[2]
            files = (f"in{channel}_input", f"curr{channel}_input")
            yield _text(label), tuple(label.with_name(name) for name in files)
        for label in sorted(chip.glob("iio:device*/rail_name_[0-2]")):
            yield _text(label), (label.with_name(f"in_power{label.name[-1]}_input"),)


def _milliwatts(files: tuple[Path, ...]) -> float | None:
    values = [_integer(file) for file in files]
    if any(value is None for value in values):
        return None
    if len(values) == 1:
        return max(0, values[0] or 0)
    return max(0.0, (values[0] or 0) * (values[1] or 0) / 1000)


def _integer(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _text(path: Path) -> str:
    """The text of a small file; empty if a sensor does not answer."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
