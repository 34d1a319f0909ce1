//! How JavaScript calls the laboratory: bytes in a buffer that it asked for, bytes out at [`lab_out`].
//!
//! Each call answers 1 if it went well and 0 if not; then what it gave, or what went wrong, lies at `lab_out`, `lab_out_len`
//! bytes, until the next call. A panic leaves its words there and ends the instance.
#![allow(
    unsafe_code,
    reason = "names and pointers that JavaScript knows; there is one caller and one thread"
)]

use crate::laboratory::Laboratory;
use std::cell::{Cell, RefCell};

thread_local! {
    static OPEN: RefCell<Option<Laboratory>> = const { RefCell::new(None) };
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static IN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn say(bytes: Vec<u8>) {
    OUT.replace(bytes);
}

fn answer(result: Result<Vec<u8>, String>) -> u32 {
    let well = u32::from(result.is_ok());
    say(result.unwrap_or_else(String::into_bytes));
    well
}

/// What the caller has written.
fn taken() -> Vec<u8> {
    IN.take()
}

/// A buffer of `len` bytes for the next call, which takes it.
#[unsafe(no_mangle)]
pub extern "C" fn lab_in(len: usize) -> *mut u8 {
    let mut buffer = vec![0; len];
    let start = buffer.as_mut_ptr();
    // Moving the vector moves none of its bytes.
    IN.set(buffer);
    start
}

/// Where the answer lies.
#[unsafe(no_mangle)]
pub extern "C" fn lab_out() -> *const u8 {
    OUT.with_borrow(Vec::as_ptr)
}

/// Its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn lab_out_len() -> usize {
    OUT.with_borrow(Vec::len)
}

/// Opens the scenario of the request in the buffer; answers the cells in JSON.
#[unsafe(no_mangle)]
pub extern "C" fn lab_open() -> u32 {
    std::panic::set_hook(Box::new(|panic| say(panic.to_string().into_bytes())));
    answer(Laboratory::open(&taken()).and_then(|(laboratory, opened)| {
        OPEN.replace(Some(laboratory));
        serde_json::to_vec(&opened).map_err(|error| error.to_string())
    }))
}

fn with_open(of: impl FnOnce(&mut Laboratory) -> Result<Vec<u8>, String>) -> u32 {
    answer(OPEN.with_borrow_mut(|open| {
        let open = open.as_mut().ok_or("no scenario is open")?;
        of(open)
    }))
}

/// Runs a cell; answers its result.
#[unsafe(no_mangle)]
pub extern "C" fn lab_run(index: usize) -> u32 {
    with_open(|open| open.run(index))
}

/// Takes in the result in the buffer, which took `wall_s` seconds.
#[unsafe(no_mangle)]
pub extern "C" fn lab_add(index: usize, wall_s: f64) -> u32 {
    with_open(|open| open.add(index, &taken(), wall_s).map(|()| Vec::new()))
}

/// Answers the report.
#[unsafe(no_mangle)]
pub extern "C" fn lab_report() -> u32 {
    with_open(|open| Ok(open.report().into_bytes()))
}
