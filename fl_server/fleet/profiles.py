"""PURE: boards and links that come with fedbed; every number with its source, or as an
assumption. They are starting points: `fl-server fleet measure` makes better ones."""

from __future__ import annotations

from fl_server.fleet.kinds import Hardware, Network

BOARDS = {
    "raspberry-pi-4": Hardware(
        gflops=11.9,  # HPL at 1.8 GHz: github.com/geerlingguy/top500-benchmark/issues/13
        cores=4,  # Cortex-A72: the same
        memory=4096,  # assumption: the 4 GB model
        idle=2.7,  # chipwired.com/raspberry-pi-power-use, "Baseline", watt meter
        training=6.3,  # the same, "High load"; HPL on all cores: 7.2 (top500-benchmark)
        sending=3.4,  # assumption: 0.7 W more than idle for the radio
    ),
    "raspberry-pi-5": Hardware(
        gflops=30.2,  # HPL at 2.4 GHz: github.com/geerlingguy/top500-benchmark/issues/18
        cores=4,  # Cortex-A76: the same
        memory=8192,  # assumption: the 8 GB model
        idle=3.5,  # assumption
        training=11.0,  # HPL on all cores, at the wall: the same issue
        sending=4.2,  # assumption: 0.7 W more than idle
    ),
    "jetson-nano": Hardware(
        gflops=3.8,  # HPL of its CPU: github.com/kreier/benchmark, LinpackDP/README.md
        cores=4,  # Cortex-A57: the same
        memory=4096,  # 3956 MB: github.com/dusty-nv/jetson-inference/issues/1206 (tegrastats)
        idle=3.1,  # mean POM_5V_IN before the load in that issue
        training=10.0,  # the budget of its 10 W mode: github.com/llh-ustb/jetson_nano
        sending=3.8,  # assumption: 0.7 W more than idle
    ),
    "jetson-orin-nano": Hardware(
        gflops=30.0,  # assumption: like the Pi 5 (six Cortex-A78AE at 1.5 GHz); CPU only
        cores=6,  # github.com/golemfactory/yagna/issues/3405 (NVIDIA's specification)
        memory=8192,  # the same
        idle=7.0,  # the lower end of "Power: 7W-25W", the same
        training=15.0,  # assumption: its 15 W mode
        sending=7.7,  # assumption: 0.7 W more than idle
    ),
}
LINKS = {
    "ethernet": Network(
        up=941.0,  # iperf3 on a Pi: mpr-projects.com, "RPi NAS: Part 3 Network Connections"
        down=941.0,  # the same
        latency=1.0,  # assumption: one switch, and the broker's machine
    ),
    "home-wifi": Network(
        up=20.0,  # assumption: a home's line to the internet, not the radio, is the limit
        down=80.0,  # assumption
        latency=20.0,  # assumption
        jitter=10.0,  # assumption
        loss=0.0005,  # assumption
    ),
    "lte": Network(
        up=13.6,  # Ofcom, "Measuring mobile broadband performance in the UK", Q4 2014
        down=14.7,  # the same: means over five cities
        latency=53.1,  # the same
        jitter=25.0,  # assumption
        loss=0.001,  # assumption
        outage_every=1800.0,  # assumption
        outage_seconds=10.0,  # assumption
    ),
    "bad-day": Network(
        up=1.0,  # assumption: all of them; a link that one would complain about
        down=4.0,
        latency=150.0,
        jitter=150.0,
        loss=0.01,
        outage_every=120.0,
        outage_seconds=15.0,
    ),
}
