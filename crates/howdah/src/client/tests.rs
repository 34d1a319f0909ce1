//! Servers that are there and say nothing.

use super::*;
use crate::desk::Desk;
use crate::inside::Outside;
use crate::{Identity, KnownHosts, Location};
use howdah_core::ObjectId;
use howdah_proto::ConnectionId;
use howdah_proto::{Config, Role, Security, TlsIdentity};

const KEY: ConnKey = ConnKey(1);

fn connection(identity: &Identity, now: Time) -> Connection {
    let key = identity.rustls_certified_key();
    let tls = TlsIdentity::new(key, Arc::new(|_: &[u8]| true)).expect("a key");
    let mut config = Config::new(Security::Tls(tls));
    // Only the clocks of the session are of interest.
    config.handshake_timeout = Span::from_secs(100_000);
    let remote = ([127, 0, 0, 1], 1).into();
    Connection::new(now, Role::Client, config, ConnectionId(1), remote, 1).expect("TLS begins")
}

/// Puts a client into a step and lets time pass; returns after how many seconds it ended, and how.
fn wait_in(
    task: Task,
    enter: impl FnOnce(&mut Client<'_>, &mut Connection),
) -> (u64, Result<Summary, Error>) {
    let dir = tempfile::tempdir().expect("a place");
    let known = KnownHosts::load(&dir.path().join("known")).expect("an empty list");
    let identity = Identity::generate().expect("a key");
    let config = CopyConfig::new(identity, known);
    let (cancel, start) = (Cancel::new(), Time::ZERO + Span::from_secs(7));
    let mut on_progress = |_: &Progress| {};
    let host = ("host".to_owned(), 1);
    let outside = Outside::new(&config, host.clone(), &mut on_progress).teller();
    let mut client = Client::new(task, &config, &cancel, outside, host, start);
    let mut connection = connection(&config.identity, start);
    enter(&mut client, &mut connection);
    for second in 0..10_000 {
        let now = start + Span::from_secs(second);
        client.poll(now, KEY, &mut connection);
        if !client.keep_running(now) {
            return (second, client.into_result());
        }
    }
    panic!("it waits for ever");
}

fn get() -> Task {
    Task::Get {
        path: "x".into(),
        destination: Location::Null,
    }
}

fn put() -> Task {
    Task::Put {
        source: Location::Zero(0),
        path: "null:".into(),
    }
}

#[test]
fn o3_thinking_about_a_key_is_not_the_copys_time() {
    let mut elapsed = Span::ZERO;
    let (_, result) = wait_in(put(), |client, connection| {
        let (tell, judgement) = std::sync::mpsc::channel();
        let at = |seconds| client.started_at + Span::from_secs(seconds);
        let (asked, judged) = (at(2), at(92));
        client.step = Step::Judging(judgement);
        client.judged_since = Some(asked);
        client.tick(at(50), connection);
        assert_eq!(client.progress.elapsed, Span::from_secs(2));
        tell.send(Ok(())).expect("somebody waits");
        client.move_on(judged, connection).expect("it begins");
        client.next_tick = judged;
        client.tick(judged + Span::from_secs(1), connection);
        elapsed = client.progress.elapsed;
        assert!(client.per_second.len() <= 2, "{:?}", client.per_second);
        client.end(judged, Err(Error::new(ErrorKind::Io, "enough")));
    });
    assert!(result.is_err());
    assert_eq!(elapsed, Span::from_secs(3));
}

#[test]
fn a_server_that_does_not_answer_a_request_is_given_up() {
    let (seconds, result) = wait_in(get(), |client, connection| {
        client.begin(connection).expect("asked");
    });
    assert_eq!(seconds, 60);
    let error = result.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(
        error.to_string().starts_with("host:1 is there but"),
        "{error}"
    );
}

#[test]
fn figures_that_do_not_come_do_not_spoil_a_copy() {
    let (seconds, result) = wait_in(get(), |client, _| {
        client.machine.asked();
        client.machine.thanks();
    });
    assert_eq!(seconds, 5);
    assert_eq!(result.expect("it is done").bytes, 0);
}

#[test]
fn a_server_that_never_confirms_is_given_up() {
    let (seconds, result) = wait_in(put(), |client, connection| {
        client.begin(connection).expect("nothing to read");
        let sending = client.machine.sending_mut().expect("it sends");
        sending.cut(connection);
    });
    assert_eq!(seconds, 600);
    let error = result.expect_err("no confirmation");
    assert!(error.to_string().contains("has all bytes but"), "{error}");
}

#[test]
fn a44_who_has_all_before_the_end_was_told_is_not_believed() {
    for has_ended in [false, true] {
        let (_, result) = wait_in(put(), |client, connection| {
            client.begin(connection).expect("nothing to read");
            let sending = client.machine.sending_mut().expect("it sends");
            if has_ended {
                sending.cut(connection);
            }
            let done = Message::Done {
                object: sending.object,
                side: SideReport::default(),
            };
            let heard = client.on_message(Time::ZERO, connection, done);
            if let Err(error) = heard {
                client.end(Time::ZERO, Err(error));
            }
        });
        if has_ended {
            result.expect("it is done");
        } else {
            assert_eq!(result.expect_err("too early").kind(), ErrorKind::Protocol);
        }
    }
}

#[test]
fn an_object_without_an_end_is_given_up() {
    let (seconds, result) = wait_in(get(), |client, connection| {
        client.begin(connection).expect("asked");
        let place = Place::Null { bytes: 0 };
        let mut receiving =
            Receiving::new(connection, ObjectId::new(1), place, Some(0), false, None)
                .expect("opened");
        receiving.on_complete();
        client.machine.receives(receiving);
    });
    assert_eq!(seconds, 60);
    let error = result.expect_err("no end");
    assert!(error.to_string().contains("not their end"), "{error}");
}

#[test]
fn a_question_that_nobody_answers_ends() {
    let (tell, judgement) = std::sync::mpsc::channel();
    let (seconds, result) = wait_in(get(), |client, _| {
        client.step = Step::Judging(judgement);
    });
    drop(tell);
    assert_eq!(seconds, 600);
    assert_eq!(result.expect_err("no judgement").kind(), ErrorKind::Auth);
}

/// What does not know the question cannot say more than that it makes no sense.
#[test]
fn a_server_that_is_too_old_for_single_files_is_named() {
    let desk = Desk::default();
    let (_, result) = wait_in(Task::Files { desk }, |client, connection| {
        client.machine.asked();
        let error = ConnectionError::ClosedByPeer {
            code: CloseCode::Protocol,
            reason: "sent a message that makes no sense".into(),
        };
        client.on_event(Time::ZERO, KEY, connection, Event::Closed(error));
    });
    let error = result.expect_err("no session");
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let text = error.to_string();
    assert!(
        text.contains("too old for sessions that stay open"),
        "{text}"
    );
}
