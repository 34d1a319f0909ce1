//! Lines that come through ssh.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use super::handover::{
    Answer, Ask, CopyEvent, OneCopy, ThirdPartyCopy, read_answer, read_ask, read_line, read_told,
    read_tunnel, write_answer, write_ask, write_told,
};
use super::within::Within;
use howdah_session::TreeOptions;
use howdah_session::pace::Pace;

/// The first byte says who reads. What is understood is written so that it means the same.
pub fn handover(bytes: &[u8]) {
    let Some((&who, bytes)) = bytes.split_first() else {
        return;
    };
    let mut out = Vec::new();
    match who % 4 {
        0 => {
            if let Ok(ask) = read_ask(&mut &*bytes) {
                write_ask(&mut out, &ask).expect("memory");
                let again = read_ask(&mut &*out).expect("we wrote it");
                assert_eq!(again, ask);
            }
        }
        1 => {
            let mut noise = 0;
            match read_answer(&mut &*bytes, |line| noise += line.len()) {
                Ok(answer) => {
                    write_answer(&mut out, &answer).expect("memory");
                    let again =
                        read_answer(&mut &*out, |_| panic!("no noise")).expect("we wrote it");
                    assert_eq!(again, answer);
                }
                Err(error) => {
                    // Whatever it said, it cannot write to a terminal.
                    let told = error.at("host").to_string();
                    assert!(!told.chars().any(char::is_control), "{told:?}");
                }
            }
            assert!(noise <= bytes.len());
        }
        2 => {
            if let Some(told) = read_told(&mut &*bytes) {
                write_told(&mut out, &told).expect("memory");
                let again = read_told(&mut &*out).expect("we wrote it");
                assert_eq!(format!("{again:?}"), format!("{told:?}"));
                if let CopyEvent::Warning(text) | CopyEvent::Note(text) = told {
                    assert!(!text.chars().any(char::is_control));
                }
            }
        }
        _ => {
            let _ = read_line(&mut &*bytes);
            let is_tunnel = read_tunnel(&mut &*bytes);
            assert!(!is_tunnel || bytes.starts_with(b"howdah-tunnel"));
        }
    }
}

/// A line of each kind.
pub fn handover_samples() -> Vec<Vec<u8>> {
    let tree = TreeOptions {
        recursive: true,
        ..TreeOptions::default()
    };
    let key = "howdah-ed25519 AAAA".to_owned();
    let asks = [
        Ask::Send,
        Ask::Serve {
            key: key.clone(),
            ports: (4433, 4500),
            only: Some(Box::new(OneCopy {
                destination: "d".into(),
                names: vec!["n".into()],
                tree: Some(tree.clone()),
                selection: Some([7; 32]),
            })),
            within: Some(Within::of_put("d".into(), Some(&tree))),
            wordy: true,
        },
        Ask::Errand(Box::new(ThirdPartyCopy {
            sources: vec!["s".into()],
            destination: "d".into(),
            tree: Some(tree),
            host: "b".to_owned(),
            port: 4433,
            addresses: vec![([192, 0, 2, 1], 4433).into()],
            key: key.clone(),
            pace: Pace::default(),
            transport: 0,
            resume: true,
            reread: false,
            wait_for_space_s: 0,
            hears_notes: true,
            idle_timeout_ms: None,
            growing: false,
            wordy: false,
            hears_changes: true,
        })),
        Ask::Pace(Pace::default()),
    ];
    let mut samples = Vec::new();
    for ask in asks {
        let mut line = vec![0];
        write_ask(&mut line, &ask).expect("memory");
        samples.push(line);
    }
    for answer in [
        Answer::Ready {
            port: 4433,
            key,
            address: Some([192, 0, 2, 1].into()),
        },
        Answer::Failed {
            message: "no".to_owned(),
            kind: Some(1),
        },
    ] {
        let mut line = b"\x01Welcome\n".to_vec();
        write_answer(&mut line, &answer).expect("memory");
        samples.push(line);
    }
    for told in [
        CopyEvent::Warning("w\u{1b}".to_owned()),
        CopyEvent::Failed {
            kind: 3,
            message: "f".to_owned(),
            stuck: false,
        },
    ] {
        let mut line = vec![2];
        write_told(&mut line, &told).expect("memory");
        samples.push(line);
    }
    samples.push(b"\x03howdah-tunnel\n".to_vec());
    samples
}
