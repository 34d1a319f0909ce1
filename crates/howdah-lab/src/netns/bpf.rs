//! Congestion controls that are not in this kernel, as BPF programs.

use howdah_bpf::Registered;

/// Registers one for as long as the second value lives; its name in the kernel, or why it cannot be had.
pub(super) fn load(name: &str) -> Result<(String, Box<dyn Send>), String> {
    match Registered::load_private(name) {
        Ok(registered) => {
            let name = registered.congestion_control_name().to_owned();
            Ok((name, Box::new(registered)))
        }
        Err(error) => Err(error.to_string()),
    }
}
