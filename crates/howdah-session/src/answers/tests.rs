//! Every answer there and back.

use super::*;
use crate::change::{Act, Reasons};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_answers_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut rest = &bytes[..];
        while let Ok(Some(_)) = decode_answer(&mut rest) {}
    }

    #[test]
    fn answers_come_back_as_they_were(files in prop::collection::vec(any::<bool>(), 0..50), piece in 1usize..9) {
        let mut bytes = Vec::new();
        let mut encoder = AnswerEncoder::default();
        for wanted in &files {
            encoder.file(*wanted, &mut bytes);
        }
        let change = Change {
            act: Act::Change,
            reasons: Reasons::OWNER,
            path: "a\nb".into(),
        };
        encoder.note(&change, &mut bytes);
        encoder.end(&mut bytes);
        let (mut back, mut waiting, mut ends) = (Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            waiting.extend_from_slice(piece);
            let mut rest = &waiting[..];
            while let Some(answer) = decode_answer(&mut rest).unwrap() {
                match answer {
                    Answer::Files { wanted, count } => back.extend((0..count).map(|_| wanted)),
                    Answer::Note(told) => prop_assert_eq!(&told, &change),
                    Answer::End => ends += 1,
                }
            }
            waiting = rest.to_vec();
        }
        prop_assert_eq!((back, waiting.len(), ends), (files, 0, 1));
    }
}
