//! Feedback reports: what decodes holds together, and is written so that it reads the same.
#![no_main]

use howdah_proto::codec::{Reader, Report, Writer, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = Report::decode(&mut Reader::new(bytes)) else {
        return;
    };
    assert!(report.coverage.len() as u64 <= limits::MAX_COVERAGE_BLOCKS);
    assert!(report.late.len() as u64 <= limits::MAX_LATE);
    assert!(report.samples.len() as u64 <= limits::MAX_SAMPLES);
    for coverage in &report.coverage {
        let covered: u64 = coverage
            .runs
            .iter()
            .map(|run| run.received + run.lost)
            .sum();
        assert_eq!(covered, coverage.len);
        assert!(coverage.len <= limits::MAX_COVERAGE_SPAN);
        assert!(coverage.from + coverage.len <= report.largest.saturating_add(1));
        assert!(coverage.lost() <= coverage.len);
        // A run takes a byte at least: no small packet makes many of them.
        assert!(coverage.runs.len() <= bytes.len());
    }
    assert!(report.late.iter().all(|&number| number <= report.largest));
    assert!(
        report
            .samples
            .iter()
            .all(|sample| sample.number <= report.largest)
    );
    let mut out = Vec::new();
    report.encode(&mut Writer::new(&mut out));
    let again = Report::decode(&mut Reader::new(&out));
    assert_eq!(again.as_ref(), Ok(&report));
});
