//! What people write as SRC and DST.
#![no_main]

use howdah::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(location) = text.parse::<Location>() else {
        return;
    };
    if matches!(location, Location::Zero(size) if size > 1 << 53) {
        // Sizes are read as floating-point numbers, with units: these are rounded.
        return;
    }
    let shown = location.to_string();
    assert_eq!(shown.parse::<Location>().as_ref(), Ok(&location), "{shown}");
    if let Location::Remote { host, port, .. } = &location {
        assert!(!host.is_empty() && *port != 0);
    }
});
