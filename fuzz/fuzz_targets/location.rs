//! What people write as SRC and DST.
#![no_main]

use howdah::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(location) = text.parse::<Location>() else {
        return;
    };
    // `zero:` without a size is shown with one; everything else reads the same again.
    let shown = location.to_string();
    assert_eq!(shown.parse::<Location>().as_ref(), Ok(&location), "{shown}");
    if let Location::Remote { host, port, .. } = &location {
        assert!(!host.is_empty() && *port != 0);
    }
});
