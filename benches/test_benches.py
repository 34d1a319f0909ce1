"""Tests of the harness's arithmetic and pages: python3 -B -m unittest discover benches."""

import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import files_report
import picture
import python_cost
import report
import tables
import turns
from procs import Failed, Process, certificate
from series import Series, bound_bps, cpu_per_gbit, median_run, ramp_s, steady
from transports import attempt, received_bytes, tcp_figures

GBIT = 1e9 / 8


def howdah_run(steady_bps=9.5e9, worst_bps=9e9, **others):
    """A made-up run of howdah."""
    run = {
        "steady_bps": steady_bps, "worst_second_bps": worst_bps, "mean_bps": steady_bps, "ramp_s": 0.8,
        "sender_cpu_s_per_gbit": 0.03, "receiver_cpu_s_per_gbit": 0.02, "sender_rss_bytes": 12 << 20,
        "receiver_rss_bytes": 200 << 20, "feedback_bytes_per_gib": 11_000.0, "repeated_share": 0.01,
        "loss_seen": 0.01, "mtu": 9000, "machine_busy": 0.9, "machine_saturated": 0.1,
    }
    return {**run, **others}


def results():
    """A made-up run of the harness, in which much is short of its goal."""
    tcp = {"steady_bps": 4e9, "worst_second_bps": 1e9, "mean_bps": 3e9, "sender_cpu_s_per_gbit": 0.02,
           "receiver_cpu_s_per_gbit": 0.02, "machine_busy": 0.5}
    cell = {"rtt_ms": 100, "loss_percent": 1, "seconds": 20, "bound_bps": 10e9,
            "runs": {"howdah": howdah_run(), "bbr": tcp, "cubic": {"error": "iperf3 -c failed | so"}},
            "certificate": {"valid": True, "verdict": "valid"}}
    far = {**cell, "rtt_ms": 400, "loss_percent": 2, "runs": {**cell["runs"], "howdah": howdah_run(8e9, 2e9)},
           "certificate": {"valid": False, "verdict": "NOT VALID: late"}}
    copy = {"seconds": 5.0, "mean_bps": 6e9, "bottleneck": "network", "verified": "blake3", "same_bytes": True,
            "sender_cpu_s_per_gbit": 0.05, "receiver_cpu_s_per_gbit": 0.05}
    return {
        "command": "benches/run.sh", "started": "then", "finished": "now", "complete": True,
        "machine": {"cores": 2, "processor": "X", "memory_gib": 24, "kernel": "Linux 6", "iperf3": "iperf 3.12",
                    "howdah": "howdah 0", "commit": "abc", "load": "0.00", "howdah_is_stale": False},
        "settings": {"tables": [1, 2, 3, 4, 5], "quick": False, "only_howdah": False},
        "matrix": [far, cell],
        "cable": [{"mtu": mtu, "seconds": 10, "runs": {"howdah": howdah_run(bps), "cubic": tcp}}
                  for mtu, bps in ((9000, 14e9), (1500, 9e9), (9000, 20e9), (9000, 13e9))],
        "file": [{"bytes": 4 << 30, "filesystem": "ext4", "disk_alone": {"seconds": 6.0},
                  "certificate": {"valid": True, "verdict": "valid"},
                  "runs": {"made_up": {**copy, "seconds": 4.0}, "warm": copy,
                           "cold": {**copy, "seconds": 9.0, "bottleneck": "source"}}}],
    }


class Runs(unittest.TestCase):
    """Several runs on one page."""

    def test_a_later_run_replaces_the_tables_that_it_has(self):
        first, again = results(), results()
        again["settings"]["tables"] = [5]
        shown = report.last_of_each([first, again])
        self.assertEqual([run["settings"]["tables"] for run in shown], [[1, 2, 3, 4], [5]])
        self.assertEqual(shown[0]["file"], [])
        text = "\n".join(map(report.markdown, shown))
        self.assertEqual(text.count("### Table 5"), 1)
        self.assertEqual(text.count("| 5: "), 2)


class Arithmetic(unittest.TestCase):
    """series.py and the reading of other programs' output."""

    def test_the_bound_counts_what_is_not_payload(self):
        self.assertAlmostEqual(bound_bps(10e9, 0.02, 9000), 10e9 * 0.98 * 8933 / 9038)

    def test_the_second_half_and_its_worst_second(self):
        series = Series([(0, 0), (2, 0), (3, GBIT), (4, 1.5 * GBIT), (4.4, 9 * GBIT)])
        figures = steady(series, 4)
        self.assertAlmostEqual(figures["steady_bps"], 0.75e9)
        self.assertAlmostEqual(figures["worst_second_bps"], 0.5e9)
        self.assertEqual(figures["per_second_bps"], [0, 0, 1_000_000_000, 500_000_000])
        self.assertEqual(Series([]).at(1), 0.0)

    def test_the_ramp_begins_with_the_first_packet_and_ignores_a_spike(self):
        def arrived(ms):
            spike = min(max(ms - 300, 0), 10) * 5 * GBIT / 1000
            return 7000 + (2000 if ms >= 100 else 0) + spike + max(ms - 600, 0) * GBIT / 1000

        samples = [(ms / 1000, arrived(ms)) for ms in range(0, 4300, 10)]
        # A stretch of 100 ms that begins 10 ms early holds 90 % of the rate.
        self.assertAlmostEqual(ramp_s(Series(samples), 4, 0.1), 0.49, places=3)
        self.assertIsNone(ramp_s(Series(samples[:5]), 4, 0.1))
        self.assertIsNone(ramp_s(Series([]), 4, 0.1))

    def test_medians_and_costs(self):
        self.assertEqual(median_run([5, 1, 3, 4], key=lambda x: x), 3)
        self.assertIsNone(median_run([], key=lambda x: x))
        self.assertAlmostEqual(cpu_per_gbit(0.5, 10 * GBIT), 0.05)
        self.assertIsNone(cpu_per_gbit(0.5, 0))

    def test_tcp_counts_what_arrives_and_the_algorithm_must_be_the_one_asked_for(self):
        sent = {"end": {"sender_tcp_congestion": "bbr", "sum_sent": {"seconds": 2.0, "retransmits": 7},
                        "cpu_utilization_percent": {"host_total": 10.0}}}
        received = {"intervals": [{"sum": {"end": 1.0, "bytes": GBIT}}, {"sum": {"end": 2.0, "bytes": 2 * GBIT}}],
                    "end": {"sum_received": {"bits_per_second": 1.5e9, "bytes": 3 * GBIT, "seconds": 2.0},
                            "cpu_utilization_percent": {"host_total": 30.0}}}
        figures = tcp_figures(sent, received, "bbr", 2)
        self.assertAlmostEqual(figures["steady_bps"], 2e9)
        self.assertAlmostEqual(figures["sender_cpu_s_per_gbit"], 0.2 / 3)
        self.assertAlmostEqual(figures["receiver_cpu_s_per_gbit"], 0.6 / 3)
        self.assertIn("used bbr", attempt(tcp_figures, sent, received, "cubic", 2)["error"])

    def test_reads_counters_and_certificates(self):
        text = "Inter-| x\n face |bytes\n    lo: 5 1\n wan0:70 2 3\neth0: 7 1\n"
        self.assertEqual(received_bytes(text), 77)
        log = "howdah: near is\nhowdah: emulated 5 s\nhowdah: certificate: NOT VALID: late\n"
        self.assertEqual(certificate(log)["verdict"], "NOT VALID: late")
        self.assertTrue(certificate("howdah: certificate: valid\n")["valid"])
        self.assertEqual(certificate("")["verdict"], "none")


class Processes(unittest.TestCase):
    """procs.py."""

    def test_a_failure_quotes_the_program_and_leaving_ends_it(self):
        with tempfile.TemporaryDirectory() as name:
            files = {"out": Path(name, "out"), "err": Path(name, "err")}
            with Process("it", ["sh", "-c", "echo up; echo bad >&2; exit 3"], **files) as process:
                with self.assertRaisesRegex(Failed, "it failed with status 3: bad"):
                    process.finish(20)
            with Process("it", ["sh", "-c", 'echo \'{"error": {"message": "no"}}\'; exit 1'], **files) as process:
                with self.assertRaisesRegex(Failed, "status 1: no$"):
                    process.finish(20)
            with Process("it", ["sh", "-c", "echo ready; exec sleep 60"], **files) as process:
                process.wait_for("ready")
            self.assertIsNotNone(process.child.returncode)


class Pages(unittest.TestCase):
    """report.py and the docs page."""

    def test_what_is_short_of_a_goal_is_marked(self):
        text = report.markdown(results())
        for part in (
            "lowest 80.0 % (400 ms, 2 %) **short by 5.0 points**, 2 of 20 cells measured | **not met**",
            "1 of 2 runs unstable or failed | **not met**",
            "| 100 ms | 1 % | 10.00 | 9.50 | 95.0 % | 90.0 % | 8.0 RTT | 4.00 (1.00) **unstable** "
            "| **failed:** iperf3 -c failed / so | valid |",
            "80.0 % **short by 5.0 points** | 20.0 % **unstable** | 2.0 RTT",
            "- 400 ms, 2 %: late",
            "14.00 Gbit/s **short by 1.00 Gbit/s** | **not met**",
            "| 9000 | howdah, sealed | 14.00 **short by 1.00** | 13.00 to 20.00 |",
            "| receiver | 200.0 | **short by 72.0 MiB** |",
            "| 10.7 | 10.7 | 400 ms, 2 % | met |",
            "| disk to disk, cold cache | 9.00 | 2.25 | 6.00 | source | blake3 | yes | 0.0500 | 0.0500 | met |",
            "1.25 x, limited by the network | met |",
        ):
            self.assertIn(part, text)

    def test_every_line_of_a_table_has_as_many_cells_as_its_head(self):
        for settings in ({}, {"only_howdah": True}):
            made_up = results()
            made_up["settings"].update(settings)
            made_up["matrix"].append({**made_up["matrix"][0], "rtt_ms": 0, "runs": {"howdah": {"error": "no"}}})
            no_copies = {name: {"error": "x"} for name in ("made_up", "cold", "warm")}
            made_up["file"].append({**made_up["file"][0], "runs": no_copies})
            width = None
            for line in report.markdown(made_up).splitlines():
                if line.startswith("|"):
                    width = width or line.count("|")
                    self.assertEqual(line.count("|"), width, line)
                else:
                    width = None

    def test_a_run_that_was_interrupted_at_once_has_a_page_too(self):
        nothing = {**results(), "matrix": [], "cable": [], "file": [], "complete": False}
        text = report.markdown(nothing)
        self.assertIn("which was interrupted", text)
        self.assertIn("Not measured in this run", text)

    def test_the_docs_page_keeps_all_but_its_tables(self):
        with tempfile.TemporaryDirectory() as name:
            page = Path(name, "page.md")
            page.write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nz\n")
            with mock.patch.object(tables, "DOCS", page), mock.patch.object(tables, "say"):
                tables.write_docs("new\n")
                self.assertEqual(page.read_text(), f"a\n{report.BEGIN}\n\nnew\n\n{report.END}\nz\n")
                page.write_text("no markers")
                with self.assertRaisesRegex(Failed, "markers"):
                    tables.write_docs("new")
        page = tables.DOCS.read_text()
        self.assertEqual((page.count(report.BEGIN), page.count(report.END)), (1, 1))


class Picture(unittest.TestCase):
    """README's picture."""

    def test_it_shows_what_the_page_says(self):
        found = picture.cells(picture.PAGE.read_text())
        self.assertEqual(picture.SPEC.read_text(), picture.written(found),
                         "docs/heatmap.vl.json is not of docs/performance.md: python3 benches/picture.py")
        drawn = sorted(re.findall(r">([\d.]+\*?)</text>", picture.PICTURE.read_text()))
        rates = sorted(row["text"] for row in picture.spec(found)["data"]["values"])
        self.assertEqual(drawn, rates, "docs/heatmap.svg is not of docs/heatmap.vl.json: python3 benches/picture.py")

    def test_small_rates_keep_two_digits(self):
        self.assertEqual([picture.number(g) for g in (9.86, 0.978, 0.042, 0.003)], ["9.9", "1.0", "0.042", "0.003"])


class Files(unittest.TestCase):
    """The tables of files and trees."""

    def cell(self, **others):
        run = {"seconds": 2.0, "ended": True, "same": True, "certificate": {"valid": True}, "near_cpu_s": 1.0, "far_cpu_s": 0.5,
               "near_peak_bytes": 3 << 20, "far_peak_bytes": 4 << 20}
        return {**run, **others}

    def test_the_quickest_is_marked_and_the_others_are_compared(self):
        self.assertEqual(files_report.seconds(self.cell(), 2.0), "**2.0**")
        self.assertEqual(files_report.seconds(self.cell(seconds=5.0), 2.0), "5.0 (2.5x)")
        self.assertEqual(files_report.seconds(self.cell(seconds=120.0, ended=False), 2.0), "> 120 (>60.0x)")

    def test_what_did_not_work_is_said(self):
        self.assertEqual(files_report.seconds(self.cell(same=False), 2.0), "wrong content")
        self.assertEqual(files_report.seconds({"error": "x"}, 2.0), "failed")
        self.assertEqual(files_report.seconds(self.cell(certificate={"valid": False}), 2.0), "**2.0** \\*")

    def test_a_run_with_wrong_content_is_never_the_quickest(self):
        wrong, right = self.cell(seconds=1.0, same=False), self.cell()
        cells = [{"rate": "1gbit", "loss_percent": 0.0, "case": "file", "mover": name, **cell}
                 for name, cell in (("a", wrong), ("b", right))]
        text = files_report.markdown({"cells": cells, "machine": {}, "command": "c", "started": "s", "rtt_ms": 100, "tcp": "bbr",
                                      "sizes": {"limit_s": 120}, "inputs": {"file": [1, 1 << 30]}})
        self.assertIn("| 1gbit, 0 % | wrong content | **2.0** |", text)

    def test_two_builds_are_compared_pair_by_pair(self):
        # Each round is slower than the one before, and "one" takes a tenth more in each.
        one = [self.cell(seconds=1.1 * s) for s in (1.0, 2.0, 4.0)]
        other = [self.cell(seconds=s) for s in (1.0, 2.0, 4.0)]
        rows = list(turns.table({"10gbit, 0 %, small": {"one": one, "other": other}}))
        self.assertEqual(rows[2:], ["| 10gbit, 0 %, small | 2.20 | 2.00 | 1.100 | 3 + 4 | 3 + 4 |"])


class Python(unittest.TestCase):
    """What the module costs."""

    def test_what_counts_are_the_pairs(self):
        # Each round is slower than the one before; the module is 2 % below the command in two of three.
        command = [(10e9, 0.02), (8e9, 0.03), (2e9, 0.04)]
        module = [(9.8e9, 0.02), (8e9, 0.04), (1.96e9, 0.05)]
        row = python_cost.row("`zero:`", {"module": module, "command": command})
        self.assertEqual(row, "| `zero:` | 8.00 | 8.00 | **0.980** | 0.980 - 0.990 | 0.980 - 1.000 | 40.0, 30.0 |")


if __name__ == "__main__":
    unittest.main()
