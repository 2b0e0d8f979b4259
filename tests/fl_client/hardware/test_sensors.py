"""Sensors of real boards, as files in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ProtocolError
from common.wire.json_codec import decode, encode
from common.wire.messages import ClientMetrics, Connected, Info, Telemetry
from fl_client.agent.state import Job
from fl_client.hardware.energy import EnergyMeter
from fl_client.hardware.gauges import Gauges
from fl_client.hardware.sensors import Sensors
from tests.some_sums import counted

MEMINFO = "MemTotal:        3884396 kB\nMemFree:          100 kB\nMemAvailable:    2884396 kB\n"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def silent(_question: str) -> str:
    return ""


def read(root: Path, answers: dict[str, str] | None = None) -> Telemetry:
    known = answers or {}
    return Sensors(root, root, lambda question: known.get(question, "")).read()


def test_a_raspberry_pi_4_tells_temperature_memory_load_and_throttling(tmp_path: Path) -> None:
    put(tmp_path, {
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "52583\n",
        "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
        "sys/class/thermal/cooling_device0/cur_state": "0\n",
        "proc/meminfo": MEMINFO,
        "proc/loadavg": "3.52 2.10 1.00 2/180 4321\n",
    })  # fmt: skip
    told = read(tmp_path, {"get_throttled": "throttled=0x50005\n"})
    assert told.celsius == 52.6
    assert told.throttled is True
    assert told.why == "under-voltage, throttled"
    assert told.memory_total == 3884396 * 1024
    assert told.memory_used == 1000000 * 1024
    assert told.load == 3.52
    assert told.disk_free is not None
    assert told.watts is None


def test_what_was_throttled_in_the_past_is_not_throttled_now(tmp_path: Path) -> None:
    assert read(tmp_path, {"get_throttled": "throttled=0x50000\n"}).throttled is False


def test_without_a_thermal_zone_the_firmware_is_asked(tmp_path: Path) -> None:
    assert read(tmp_path, {"measure_temp": "temp=47.2'C\n"}).celsius == 47.2


def test_without_firmware_a_cooled_cpu_counts_as_throttled(tmp_path: Path) -> None:
    put(tmp_path, {
        "sys/class/thermal/cooling_device0/type": "thermal-cpufreq-0\n",
        "sys/class/thermal/cooling_device0/cur_state": "2\n",
        "sys/class/thermal/cooling_device1/type": "pwm-fan\n",
        "sys/class/thermal/cooling_device1/cur_state": "1\n",
    })  # fmt: skip
    told = read(tmp_path)
    assert (told.throttled, told.why) == (True, "slowed down to cool")


def test_a_jetson_nano_tells_the_power_of_its_main_rail(tmp_path: Path) -> None:
    chip = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    put(tmp_path, {
        f"{chip}/rail_name_0": "POM_5V_IN\n", f"{chip}/in_power0_input": "4210\n",
        f"{chip}/rail_name_1": "POM_5V_GPU\n", f"{chip}/in_power1_input": "300\n",
        f"{chip}/rail_name_2": "POM_5V_CPU\n", f"{chip}/in_power2_input": "1500\n",
        "sys/class/thermal/thermal_zone0/type": "AO-therm\n",
        "sys/class/thermal/thermal_zone0/temp": "44500\n",
        "sys/class/thermal/thermal_zone1/type": "CPU-therm\n",
        "sys/class/thermal/thermal_zone1/temp": "39000\n",
    })  # fmt: skip
    told = read(tmp_path)
    assert told.watts == 4.21
    assert told.celsius == 39.0


def test_a_jetson_orin_tells_volts_and_amperes_of_vdd_in(tmp_path: Path) -> None:
    chip = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1"
    put(tmp_path, {
        f"{chip}/in1_label": "VDD_IN\n", f"{chip}/in1_input": "5000\n",
        f"{chip}/curr1_input": "1200\n",
        f"{chip}/in2_label": "VDD_CPU_GPU_CV\n", f"{chip}/in2_input": "5000\n",
        f"{chip}/curr2_input": "400\n",
    })  # fmt: skip
    assert read(tmp_path).watts == 6.0


def test_rails_without_a_main_one_are_added_up_and_a_dead_one_is_left_out(
    tmp_path: Path,
) -> None:
    chip = "sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon2"
    put(tmp_path, {
        f"{chip}/in1_label": "CPU\n", f"{chip}/in1_input": "5000\n",
        f"{chip}/curr1_input": "200\n",
        f"{chip}/in2_label": "GPU\n", f"{chip}/in2_input": "5000\n",
        f"{chip}/curr2_input": "100\n",
        f"{chip}/in3_label": "SOC\n", f"{chip}/in3_input": "broken\n",
    })  # fmt: skip
    assert read(tmp_path).watts == 1.5


def test_a_machine_without_sensors_tells_only_what_every_machine_has(tmp_path: Path) -> None:
    told = read(tmp_path / "nothing")
    assert told.cpus is not None
    assert [told.celsius, told.throttled, told.memory_used, told.load, told.watts] == [None] * 5


def test_a_value_that_cannot_be_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    put(tmp_path, {
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "999000\n",
        "proc/loadavg": "1.25 0 0\n",
    })  # fmt: skip
    told = read(tmp_path)
    assert (told.celsius, told.load) == (None, 1.25)


def test_energy_is_power_over_time_shared_by_those_who_run_side_by_side() -> None:
    meter = EnergyMeter()
    meter.sample(10.0, 4.0, [1])
    meter.sample(12.0, 6.0, [1])  # 2 s of 5 W
    meter.sample(12.0, 6.0, [1, 2])
    meter.sample(16.0, 6.0, [1, 2])  # 4 s of 6 W for two
    assert meter.take(1) == 22.0
    assert meter.take(2) == 12.0
    assert meter.take(1) is None


def test_time_without_a_training_or_a_measurement_costs_nobody_anything() -> None:
    meter = EnergyMeter()
    meter.sample(0.0, 5.0, [1])
    meter.sample(1.0, None, [])
    meter.sample(100.0, 5.0, [2])
    meter.sample(101.0, 5.0, [2])
    assert meter.take(2) == 5.0
    assert meter.take(1) is None


def test_gauges_stamp_news_and_measure_only_trainings(tmp_path: Path) -> None:
    chip = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1"
    put(tmp_path, {f"{chip}/in1_label": "VDD_IN\n", f"{chip}/in1_input": "5000\n",
                   f"{chip}/curr1_input": "1000\n"})  # fmt: skip
    gauges = Gauges(tmp_path, Sensors(tmp_path, tmp_path, silent))
    jobs = {1: Job("train", 0, 1, None), 2: Job("test", 1, 1, None)}
    gauges.tick(jobs)
    joules = gauges.ended(1, jobs)
    assert joules is not None
    assert joules >= 0
    assert gauges.ended(2, jobs) is None
    gauges.close()
    gauges.telemetry = Telemetry(celsius=50.0)
    info = Info(run="r", round=1, client=0, board="b", state="training")
    stamped = gauges.stamp(info)
    assert isinstance(stamped, Info)
    assert stamped.telemetry == Telemetry(celsius=50.0)
    metrics = ClientMetrics(run="r", round=1, client=0, own={"G": counted(1, 2)})
    assert gauges.stamp(metrics) is metrics


def test_messages_without_telemetry_are_as_valid_as_ever() -> None:
    old = b'{"run":"r","round":1,"client":2,"board":"b","state":"training"}'
    assert decode(old, Info).telemetry is None
    claim = (
        b'{"protocol":2,"version":"1","board":"b","instance":"i","session":[1,1],'
        b'"connected":true,"settled":true,"since":1.0,"clients":[1],"host":"h"}'
    )
    assert decode(claim, Connected).telemetry is None


@pytest.mark.parametrize(
    "telemetry",
    ['{"celsius":1000}', '{"watts":-1}', '{"memory_used":-5}', '{"cpus":0}', '{"smell":1}',
     '{"load":1e300}', '{"throttled":1}', "[]"],
)  # fmt: skip
def test_telemetry_beyond_its_bounds_is_refused(telemetry: str) -> None:
    good = encode(Info(run="r", round=1, client=2, board="b", state="training")).decode()
    told = good.replace('"telemetry":null', f'"telemetry":{telemetry}')
    assert told != good
    with pytest.raises(ProtocolError, match="not a valid Info"):
        decode(told.encode(), Info)
