"""Arithmetic on what was measured. Nothing here touches the machine."""

import bisect

GIB = 1 << 30
# Bytes of every Ethernet packet that are not IP: header, check sequence, preamble, gap.
ETHERNET_BYTES = 38
# IPv4, UDP, header of a data packet, header of its frame, seal.
HOWDAH_HEADERS = 28 + 13 + 10 + 16
# Stretch of the arrivals over which a rate is taken, at least.
RAMP_WINDOW_S = 0.05


def bound_bps(rate_bps, loss, mtu):
    """Goodput in bit/s of a sender that fills the link with full packets and repeats nothing in vain."""
    return rate_bps * (1 - loss) * (mtu - HOWDAH_HEADERS) / (mtu + ETHERNET_BYTES)


class Series:
    """Bytes so far over time in seconds, straight between two samples."""

    def __init__(self, samples):
        """Samples are (seconds, bytes), in any order."""
        samples = sorted(samples)
        self.times = [seconds for seconds, _ in samples]
        self.totals = [total for _, total in samples]

    def at(self, seconds):
        """Bytes up to that time."""
        if not self.times:
            return 0.0
        i = bisect.bisect_left(self.times, seconds)
        if i == 0:
            return float(self.totals[0])
        if i == len(self.times):
            return float(self.totals[-1])
        (t0, t1), (b0, b1) = self.times[i - 1 : i + 1], self.totals[i - 1 : i + 1]
        return b0 + (b1 - b0) * (seconds - t0) / (t1 - t0)

    def rate_bps(self, begin, end):
        """Mean rate in bit/s between two times."""
        return (self.at(end) - self.at(begin)) * 8 / (end - begin)

    def per_second_bps(self, begin, end):
        """Rate of each whole second from `begin` on; of the whole if that is less than a second."""
        count = int(end - begin + 1e-6)
        return [self.rate_bps(begin + i, begin + i + 1) for i in range(count)] or [self.rate_bps(begin, end)]


def steady(series, seconds):
    """Steady state: mean and worst second of the second half of a run of `seconds`."""
    return {
        "steady_bps": series.rate_bps(seconds / 2, seconds),
        "worst_second_bps": min(series.per_second_bps(seconds / 2, seconds)),
        "per_second_bps": [round(bps) for bps in series.per_second_bps(0, seconds)],
    }


def ramp_s(arrivals, seconds, rtt_s, *, first_bytes=500, share=0.9):
    """Seconds from the first packet that arrives until the arrivals have reached their steady rate.

    That is the beginning of the first stretch of one RTT (at least RAMP_WINDOW_S) whose mean is
    `share` of the mean of the second half. `arrivals` is in bytes on the link at the receiver.
    None if it never gets there.
    """
    base = arrivals.totals[0] if arrivals.totals else 0
    start = next((t for t, b in zip(arrivals.times, arrivals.totals) if b - base > first_bytes), None)
    if start is None:
        return None
    wanted = share * arrivals.rate_bps(start + seconds / 2, start + seconds)
    window = max(rtt_s, RAMP_WINDOW_S)
    for t in arrivals.times[bisect.bisect_left(arrivals.times, start) :]:
        if t + window > arrivals.times[-1]:
            return None
        if arrivals.rate_bps(t, t + window) >= wanted:
            return t - start
    return None


def cpu_per_gbit(cpu_seconds, moved_bytes):
    """CPU seconds per Gbit of payload, which is also cores per Gbit/s."""
    return cpu_seconds / (moved_bytes * 8 / 1e9) if moved_bytes else None


def median_run(runs, key):
    """The run in the middle by `key`, the lower one of two."""
    ordered = sorted(runs, key=key)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
