//! SRT, file mode: the sample program of its library.

use super::{Adapter, AdapterArgs, Figures, Launch, Ready, Recipe, Said, need, window_bytes};
use crate::netns::Trouble;
use serde::Deserialize;
use std::fs::{self, File};
use std::path::Path;

const PROGRAM: &str = "srt-file-transmit";
const INSTALL: &str = "apt-get install srt-tools";
const PORT: u16 = 9200;
/// The receiver calls its file as the sender calls the one that it reads.
const FILE: &str = "object";
/// What is sent if no size is named: more than the time allows.
const ENDLESS_BYTES: u64 = 1 << 42;
/// IPv4, UDP and SRT.
const HEADER_BYTES: u32 = 44;
/// Largest packet that SRT 1.5.1 connects with; with more the caller leaves, and says nothing but in its log ("MSS size
/// 1501exceeds MTU size!").
const MOST_PACKET_BYTES: u32 = 1500;
/// Packets between two lines of statistics.
const REPORT_PACKETS: &str = "200";
/// So many may be missing in the last line.
const REPORT_SLACK: u64 = 400;
/// Of the sender and of the receiver.
const STATISTICS: [&str; 2] = ["sent.json", "received.json"];

pub(super) const ALL: &[Adapter] = &[Adapter {
    name: "srt",
    prepare,
}];

fn prepare(errand: &AdapterArgs<'_>, dir: &Path) -> Result<Launch, Trouble> {
    let program = need(PROGRAM, INSTALL)?;
    let to = errand.ends.receiver;
    let mss = errand.flow.options.packet_bytes.unwrap_or(errand.mtu);
    let mss = mss.min(errand.mtu).min(MOST_PACKET_BYTES);
    let payload = mss - HEADER_BYTES;
    let window = window_bytes(errand);
    let flight = window / u64::from(payload) + 25_600;
    // Encryption is off as long as there is no passphrase.
    let options = format!("transtype=file&mss={mss}&fc={flight}&sndbuf={window}&rcvbuf={window}");
    let size = errand.flow.size_bytes;
    // Holes read as zeros and take no memory; what arrives goes nowhere.
    let source = dir.join(FILE);
    let file = File::create(&source).and_then(|file| file.set_len(size.unwrap_or(ENDLESS_BYTES)));
    file.map_err(Trouble::io("make a file to send"))?;
    let arrived = dir.join("arrived");
    fs::create_dir(&arrived).map_err(Trouble::io("make a directory to receive in"))?;
    std::os::unix::fs::symlink("/dev/null", arrived.join(FILE))
        .map_err(Trouble::io("make a link to nowhere"))?;
    // A chunk of more than a packet that fits into the send buffer in part only ends the program (1.5.1).
    let chunk = payload.to_string();
    let statistics = STATISTICS.map(|name| dir.join(name));
    let end = |at: usize| {
        Recipe::new(&program)
            .args(["-c", &chunk, "-f", "-pf", "json", "-s", REPORT_PACKETS])
            .args(["-statsout".into(), statistics[at].clone().into_os_string()])
    };
    let mut receiver = end(1)
        .args([
            format!("srt://{to}:{PORT}?mode=listener&{options}"),
            format!("file://{}", arrived.join(FILE).display()),
        ])
        .ready(Ready::UdpPort(PORT));
    let mut sender = end(0).args([
        format!("file://{}", source.display()),
        format!("srt://{to}:{PORT}?mode=caller&{options}"),
    ]);
    if size.is_some() {
        (sender, receiver) = (sender.ends_itself(), receiver.ends_itself());
    }
    Ok(Launch {
        receiver,
        sender,
        read: Box::new(move |_, receiver| {
            let texts = statistics
                .each_ref()
                .map(|file| fs::read_to_string(file).unwrap_or_default());
            let [sent, received] = texts.each_ref().map(|text| last(text));
            Ok(read(size, u64::from(payload), [sent, received], receiver))
        }),
        keep: Vec::new(),
    })
}

/// A line of statistics, in part.
#[derive(Deserialize)]
struct Line {
    send: Sent,
    recv: Received,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    /// With those that were sent again.
    packets: u64,
    packets_unique: u64,
    #[serde(default)]
    packets_retransmitted: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Received {
    /// Without those that came twice.
    packets_unique: u64,
}

/// The last whole one.
fn last(statistics: &str) -> Option<Line> {
    let mut lines = statistics.lines().rev();
    lines.find_map(|line| serde_json::from_str(line).ok())
}

/// The lines are the sender's and the receiver's.
fn read(
    size: Option<u64>,
    payload: u64,
    [sent, received]: [Option<Line>; 2],
    receiver: &Said,
) -> Figures {
    let complete = receiver.err.contains("Download COMPLETE");
    let counted = received.map(|line| line.recv.packets_unique * payload);
    // The sender's lines end with its last write, when a size may still be in its buffer.
    let is_all =
        |sent: &Sent| size.is_none_or(|size| (sent.packets_unique + REPORT_SLACK) * payload > size);
    let sent = sent.map(|line| line.send).filter(is_all);
    let again = sent.as_ref().and_then(|sent| sent.packets_retransmitted);
    Figures {
        // Each end writes its lines when it likes; what has arrived was sent.
        sent_bytes: sent.map(|sent| (sent.packets * payload).max(counted.unwrap_or(0))),
        retransmitted_bytes: again.map(|packets| packets * payload),
        algorithm: "SRT (file mode, unencrypted)".to_owned(),
        delivered_bytes: match size {
            // An interrupted receiver says that it is complete as well; a packet may be short.
            Some(size)
                if complete
                    && counted.is_some_and(|bytes| bytes + REPORT_SLACK * payload > size) =>
            {
                Some(size)
            }
            _ => counted,
        },
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// srt-file-transmit 1.5.1, shortened.
    const RECEIVED: &str = r#"{"sid":693143210,"time":436,"send":{"packets":0,"packetsUnique":0},"recv":{"packets":20011,"packetsUnique":20000,"packetsLost":11}}
{"sid":693143210,"time":436,"window":{"flow":54347,"congestion":16,"flight":0},"send":{"packets":0,"packetsUnique":0},"recv":{"packets":36029,"packetsUnique":36009,"packetsLost":0,"bytes":54013196,"bytesUnique":54013196}}
{"sid":693143210,"ti"#;
    const SENT: &str = r#"{"sid":266427629,"time":9886,"send":{"packets":36200,"packetsUnique":36100,"packetsLost":107,"packetsRetransmitted":100,"bytes":496576500},"recv":{"packets":0,"packetsUnique":0}}
"#;
    const SAID: &str = "Source connected (listener), id [src]\nWriting output to [/x/arrived/object]\n\
        Connection closed, reading buffer remains\nDownload COMPLETE.\n";

    #[test]
    fn the_last_whole_line_counts() {
        let said = Said {
            out: String::new(),
            err: SAID.to_owned(),
        };
        let lines = || [last(SENT), last(RECEIVED)];
        let figures = read(None, 1456, lines(), &said);
        assert_eq!(figures.delivered_bytes, Some(36_009 * 1456));
        assert_eq!(figures.sent_bytes, Some(36_200 * 1456));
        assert_eq!(figures.retransmitted_bytes, Some(100 * 1456));
        let behind = SENT.replace("36200", "35900").replace("36100", "35800");
        let behind = read(None, 1456, [last(&behind), last(RECEIVED)], &said);
        assert_eq!(behind.sent_bytes, Some(36_009 * 1456));
        let whole = read(Some(52_428_800), 1456, lines(), &said);
        assert_eq!(whole.delivered_bytes, Some(52_428_800));
        let cut_off = read(Some(100_000_000), 1456, lines(), &said);
        assert_eq!(cut_off.delivered_bytes, Some(36_009 * 1456));
        assert_eq!(cut_off.retransmitted_bytes, None);
        let silent = read(None, 1456, [last(""), None], &Said::default());
        assert_eq!(silent.delivered_bytes, None);
        assert_eq!(silent.retransmitted_bytes, None);
    }
}
