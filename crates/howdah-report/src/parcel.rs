//! A cell's result with its intervals as one run of bytes, to go from whoever ran it to whoever makes the report.
//!
//! The length of the JSON (u32, little-endian), the JSON, and the intervals as in the campaign's directory.

use crate::intervals;
use crate::result::CellResult;

/// The result as bytes.
pub fn wrap(result: &CellResult) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(result).map_err(|error| error.to_string())?;
    let table = intervals::encode(result).map_err(|error| error.to_string())?;
    let length = u32::try_from(json.len()).map_err(|error| error.to_string())?;
    Ok([&length.to_le_bytes()[..], &json, &table].concat())
}

/// The result that is in the bytes.
pub fn unwrap(bytes: &[u8]) -> Result<CellResult, String> {
    let parts = bytes.split_first_chunk().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.split_at_checked(length)
    });
    let (json, table) = parts.ok_or("cut short")?;
    let mut result = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    intervals::decode(table.to_vec(), &mut result).map_err(|error| error.to_string())?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, Interval};

    #[test]
    fn what_is_wrapped_is_what_comes_out() {
        let interval = Interval {
            goodput_bps: 1e9,
            ..Interval::default()
        };
        let flow = FlowResult {
            name: "a".to_owned(),
            intervals: vec![interval; 3],
            ..FlowResult::default()
        };
        let result = CellResult {
            id: "id".to_owned(),
            flows: vec![flow],
            ..CellResult::default()
        };
        let bytes = wrap(&result).expect("it can be wrapped");
        assert_eq!(unwrap(&bytes).as_ref(), Ok(&result));
        assert!(unwrap(&bytes[..bytes.len() / 2]).is_err());
        assert!(unwrap(&bytes[..3]).is_err());
    }
}
