//! Datagrams in a stream: two bytes of length, most significant first, then the datagram.

use howdah_proto::MAX_DATAGRAM;
use std::io::{self, Read};

/// Bytes of a length.
pub(super) const LENGTH_BYTES: usize = 2;

/// Appends a datagram; one that is empty or longer than any of ours is left out.
pub(super) fn push(out: &mut Vec<u8>, datagram: &[u8]) {
    if let Ok(len @ 1..) = u16::try_from(datagram.len())
        && datagram.len() <= MAX_DATAGRAM
    {
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(datagram);
    }
}

/// Reads the next datagram into `buffer`, which is as long as the longest; `None` at the end of the stream.
pub(super) fn next<'b>(
    stream: &mut impl Read,
    buffer: &'b mut [u8],
) -> io::Result<Option<&'b [u8]>> {
    let mut length = [0; LENGTH_BYTES];
    let first = loop {
        match stream.read(&mut length) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    match first {
        0 => return Ok(None),
        LENGTH_BYTES => {}
        read => stream.read_exact(&mut length[read..])?,
    }
    let length = usize::from(u16::from_be_bytes(length));
    let Some(datagram) = buffer.get_mut(..length).filter(|d| !d.is_empty()) else {
        let why = format!("a frame of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    };
    stream.read_exact(datagram)?;
    Ok(Some(datagram))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        let mut datagrams = Vec::new();
        loop {
            match next(&mut stream, &mut buffer) {
                Ok(Some(datagram)) => datagrams.push(datagram.to_vec()),
                Ok(None) => return (datagrams, true),
                Err(_) => return (datagrams, false),
            }
        }
    }

    #[test]
    fn datagrams_come_back_as_they_were() {
        let lengths = [1, 2, 255, 256, 1200, MAX_DATAGRAM];
        let sent: Vec<Vec<u8>> = lengths.iter().map(|&n| vec![n as u8; n]).collect();
        let mut stream = Vec::new();
        for datagram in &sent {
            push(&mut stream, datagram);
        }
        push(&mut stream, &[]);
        push(&mut stream, &vec![0; MAX_DATAGRAM + 1]);
        assert_eq!(read_all(&stream), (sent, true));
    }

    #[test]
    fn a31_lengths_that_cannot_be_and_cut_off_streams_are_errors() {
        let too_long = (MAX_DATAGRAM as u16 + 1).to_be_bytes();
        for stream in [&[0, 0][..], &too_long, &[0xff, 0xff], &[0], &[0, 2, 7]] {
            assert_eq!(read_all(stream), (vec![], false), "{stream:?}");
        }
        // Every cut of a good stream gives the datagrams before it and, between two, no error.
        let mut stream = Vec::new();
        push(&mut stream, b"one");
        push(&mut stream, b"three");
        for cut in 0..=stream.len() {
            let (datagrams, ended) = read_all(&stream[..cut]);
            let whole = usize::from(cut >= 5) + usize::from(cut >= 12);
            assert_eq!((datagrams.len(), ended), (whole, [0, 5, 12].contains(&cut)));
        }
    }
}
