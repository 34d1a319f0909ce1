//! What tells the rules of one request from those of another.

use howdah_session::TreeOptions;

/// What tells the rules of a request from all others, except that a rule which names something by its whole path may
/// name it from the source on: which path that is, only the machine knows that the source is on.
pub(crate) fn digest(options: &TreeOptions) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for rule in options.rules.iter() {
        let pattern = from_its_last_name(rule.pattern);
        hasher.update(&[u8::from(rule.include) | u8::from(rule.listed) << 1]);
        hasher.update(&(pattern.len() as u64).to_be_bytes());
        hasher.update(pattern.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// `/a/b/c` and `/c` are `/c`.
fn from_its_last_name(pattern: &str) -> &str {
    let end = pattern.trim_end_matches('/').len();
    match pattern[..end].rfind('/') {
        Some(at) if pattern.starts_with('/') => &pattern[at..],
        _ => pattern,
    }
}
